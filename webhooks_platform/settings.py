"""Every knob of the platform, in one place: its default, its unit, what it means.

Values come from the environment, then from a `.env` file beside manage.py (`make up` writes one with fresh secrets).
Settings are read at the edges and passed on as arguments; `webhooks_platform/checks.py` refuses nonsense at start-up.
"""

import os
from pathlib import Path

import django_stubs_ext
import environ
from django.templatetags.static import static
from django.urls import reverse_lazy

from webhooks_platform import addresses

# Lets classes name their type parameters (`ModelAdmin[Event]`) at run time too.
django_stubs_ext.monkeypatch()

BASE_DIR = Path(__file__).resolve().parent.parent
# As pyproject.toml says; shown by /metrics.
VERSION = "0.1.0"

env = environ.Env()
# ENV_FILE= (empty) reads no file at all, so tests never see a developer's own settings.
if env_file := os.environ.get("ENV_FILE", str(BASE_DIR / ".env")):
    env.read_env(env_file)

# ── Django ───────────────────────────────────────────────────────────────────────────────────────────────────────────

# Never in production: error pages then show the code.
DEBUG = env.bool("DEBUG", default=False)
# No default: sessions, CSRF tokens and portal links are signed with it. Checked at start-up (webhooks.E001).
SECRET_KEY = env.str("SECRET_KEY", default="")
# Host names that the web server answers to.
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_FAILURE_VIEW = "deliveries.console.errors.form_expired"
# Origins of pages that may send forms here, where a proxy changes the host, like https://hooks.example.com.
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])
# True behind a proxy that terminates TLS and sets X-Forwarded-Proto: cookies become secure, http is redirected.
BEHIND_TLS = env.bool("BEHIND_TLS", default=False)
if BEHIND_TLS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    # Health probes and Prometheus come from inside, without TLS.
    SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
    SECURE_HSTS_SECONDS = 31_536_000
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS

INSTALLED_APPS = [
    # Before the admin: its templates take the place of Django's.
    "unfold.apps.BasicAppConfig",
    "deliveries.console.apps.ConsoleConfig",
    "deliveries.console.accounts.apps.AccountsConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "webhooks_platform",
    "subscriptions",
    "deliveries",
]
# Those of webhooks_platform.middleware are Django's own, for every address outside the API.
# Emits are answered before Django while this holds nothing but Django's own two and what skips the API
# (deliveries/api/answer_before_django.py). Whatever is added sees them all, and then they go through Django.
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "webhooks_platform.middleware.NoNulCharacters",
    "webhooks_platform.middleware.StaticFiles",
    "webhooks_platform.middleware.FramedCookies",
    "webhooks_platform.middleware.Sessions",
    "django.middleware.common.CommonMiddleware",
    "webhooks_platform.middleware.FormTokens",
    "webhooks_platform.middleware.Users",
    "webhooks_platform.middleware.Messages",
    "webhooks_platform.middleware.Frames",
]
ROOT_URLCONF = "webhooks_platform.urls"
WSGI_APPLICATION = "webhooks_platform.wsgi.application"
# Where a login leads whose `?next=` was refused or missing, and a logout.
LOGIN_REDIRECT_URL = "admin:index"
LOGOUT_REDIRECT_URL = "admin:login"
# The API answers with and without the trailing slash; a redirect would lose a POST's body.
APPEND_SLASH = False
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            # `{% csrf_token %}` that also names the form, so that it does its work once.
            "builtins": ["deliveries.templatetags.form_tokens"],
        },
    }
]
STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
# Serve straight from the apps when nothing was collected (a fresh clone); the image collects at build time.
WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = not STATIC_ROOT.is_dir()
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
# Of the portal. Everything else speaks English (deliveries/portal/language.py).
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LOCALE_PATHS = [BASE_DIR / "locale"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

# ── Servers ──────────────────────────────────────────────────────────────────────────────────────────────────────────

# PostgreSQL. Defaults to the embedded server that `make up` starts in .data/.
DATABASES = {"default": env.db_url("DATABASE_URL", default=addresses.database_url(BASE_DIR / ".data"))}
if DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql":
    # The same, but nobody waits for ever for a server that is frozen.
    DATABASES["default"]["ENGINE"] = "webhooks_platform.postgresql"
# True: PgBouncer in transaction mode stands between us and PostgreSQL, and nothing is kept in a session. The role's own
# lock_timeout then stands for DATABASE_LOCK_TIMEOUT_MS (docs/deploying.md).
DATABASE_TRANSACTION_POOLING = env.bool("DATABASE_TRANSACTION_POOLING", default=False)
# A statement that was run so often is prepared; 0: never. Through PgBouncer 0, unless it is 1.21 or later and has
# max_prepared_statements.
DATABASE_PREPARE_THRESHOLD = env.int("DATABASE_PREPARE_THRESHOLD", default=0 if DATABASE_TRANSACTION_POOLING else 3)
# How long a request or a migration waits for somebody else's lock (milliseconds).
DATABASE_LOCK_TIMEOUT_MS = env.int("DATABASE_LOCK_TIMEOUT_MS", default=2000)
# How long a web process waits for the answer to a statement before the caller hears 503 (seconds). 0: for ever.
DATABASE_ANSWER_SECONDS = env.float("DATABASE_ANSWER_SECONDS", default=8)
# How long a worker's task waits for the answer to a statement (seconds): retention and statistics take their time.
# 0: for ever.
DATABASE_WORKER_ANSWER_SECONDS = env.float("DATABASE_WORKER_ANSWER_SECONDS", default=300)
# Connections live for ten minutes in their thread. A dead one is noticed by the first statement of a request, the look
# at its key, which then runs again on a new one (subscriptions/keys.py); an emit looks before it sends
# (deliveries/accepting/group_commit.py).
DATABASES["default"]["CONN_MAX_AGE"] = env.int("DATABASE_CONN_MAX_AGE", default=600)
DATABASES["default"]["OPTIONS"] = (
    # A server that vanished without a word is noticed within half a minute, instead of after TCP's quarter of an hour.
    {
        "connect_timeout": 3,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 25_000,
    }
    | DATABASES["default"].get("OPTIONS", {})
    | {
        # Parameters travel apart from the statement, in binary where that is shorter, and repeated statements are
        # prepared.
        "server_side_binding": True,
        "prepare_threshold": DATABASE_PREPARE_THRESHOLD or None,
        # No request and no migration waits long for somebody else's lock (milliseconds). A pooler passes it to nobody.
        **({} if DATABASE_TRANSACTION_POOLING else {"options": f"-c lock_timeout={DATABASE_LOCK_TIMEOUT_MS}"}),
    }
)
DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = DATABASE_TRANSACTION_POOLING
# The bell and rate limits, and Celery's broker where no other is named. Defaults to the embedded server in .data/.
REDIS_URL = env.str("REDIS_URL", default=addresses.redis_url(BASE_DIR / ".data"))
# How long an emit may wait for Redis before it goes on without (seconds). The sweep finds what the bell missed.
REDIS_TIMEOUT_SECONDS = env.float("REDIS_TIMEOUT_SECONDS", default=0.2)

# ── Celery ───────────────────────────────────────────────────────────────────────────────────────────────────────────

# Celery's broker: Redis, unless another one is named, e.g. amqp://user:password@rabbitmq:5672//. The bell and
# rate limits stay on REDIS_URL. kombu spells a unix socket differently from redis-py.
CELERY_BROKER_URL = env.str("CELERY_BROKER_URL", default=REDIS_URL).replace("unix://", "redis+socket://", 1)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "background"
CELERY_TASK_ROUTES = {"deliveries.deliver_due": {"queue": "deliveries"}}
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# Connections are kept from task to task; dead ones are left (webhooks_platform/celery.py).
CELERY_DB_REUSE_MAX = 2**31
# A worker outlives any outage of its broker.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# No message is precious: publishing fails fast, and the sweep makes up for it.
CELERY_TASK_PUBLISH_RETRY = False
# RabbitMQ need not write them to its disk.
CELERY_TASK_DEFAULT_DELIVERY_MODE = "transient"
CELERY_BROKER_CONNECTION_TIMEOUT = 1.0
# Redis alone knows these. A worker asks for messages for a second at a time, so an answer takes longer than that.
CELERY_BROKER_TRANSPORT_OPTIONS = (
    {"socket_connect_timeout": 1.0, "socket_timeout": 2.5} if CELERY_BROKER_URL.startswith("redis") else {}
)

# ── Secrets at rest ──────────────────────────────────────────────────────────────────────────────────────────────────

# Comma-separated `id:base64 of 32 bytes`. The first encrypts; all of them decrypt. Not derived from SECRET_KEY.
# Make one: python -c "import base64,os;print('k1:'+base64.b64encode(os.urandom(32)).decode())"
ENCRYPTION_KEYS = env.list("ENCRYPTION_KEYS", default=[])

# ── Events in ────────────────────────────────────────────────────────────────────────────────────────────────────────

# Largest body of a request, and of one event inside a batch (bytes).
MAX_BODY_BYTES = env.int("MAX_BODY_BYTES", default=256 * 1024)
# Largest body of one batch request (bytes), and how many events it may hold.
MAX_BATCH_BODY_BYTES = env.int("MAX_BATCH_BODY_BYTES", default=8 * 1024 * 1024)
MAX_BATCH_EVENTS = env.int("MAX_BATCH_EVENTS", default=1000)
# Django's own limit must not undercut ours.
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BATCH_BODY_BYTES + 1
# `register` adds an unknown event type to the catalogue on first use; `refuse` answers 400.
UNKNOWN_EVENT_TYPES = env.str("UNKNOWN_EVENT_TYPES", default="register")
# The api_version of events that name none.
DEFAULT_API_VERSION = env.str("DEFAULT_API_VERSION", default="1")
# How long a stored answer to an Idempotency-Key is kept (hours).
IDEMPOTENCY_HOURS = env.int("IDEMPOTENCY_HOURS", default=72)
# Requests per second for each owner of API keys (a consumer, a service), and how many may come at once after a quiet
# while. 0 means no limit.
API_RATE_PER_SECOND = env.int("API_RATE_PER_SECOND", default=2000)
API_RATE_BURST = env.int("API_RATE_BURST", default=0) or API_RATE_PER_SECOND * 2
# How much a consumer may change within a day, by its keys and in its portal: each change is in the audit log for long.
MAX_CHANGES_PER_DAY = env.int("MAX_CHANGES_PER_DAY", default=5000)
# How many living API keys one consumer may have; within a day it may make ten times as many.
MAX_KEYS_PER_CONSUMER = env.int("MAX_KEYS_PER_CONSUMER", default=50)
# How many endpoints one consumer may have.
MAX_ENDPOINTS_PER_CONSUMER = env.int("MAX_ENDPOINTS_PER_CONSUMER", default=50)
# How many it may make within a day, deleted ones included.
MAX_NEW_ENDPOINTS_PER_DAY = env.int("MAX_NEW_ENDPOINTS_PER_DAY", default=1000)
# How many replay jobs of one consumer may run at once, whoever started them. Jobs of no certain consumer do not count.
MAX_RUNNING_REPLAYS_PER_CONSUMER = env.int("MAX_RUNNING_REPLAYS_PER_CONSUMER", default=10)

# ── The web server ───────────────────────────────────────────────────────────────────────────────────────────────────

# Requests a web process works on at a time, each with a database connection. Waiting for a body takes none.
WEB_SLOTS = env.int("WEB_SLOTS", default=16)
# A body has so long to arrive (seconds), and a second more for each of so many bytes; then the answer is 408.
REQUEST_BODY_TIMEOUT_SECONDS = env.float("REQUEST_BODY_TIMEOUT_SECONDS", default=10)
REQUEST_BODY_MIN_BYTES_PER_SECOND = env.int("REQUEST_BODY_MIN_BYTES_PER_SECOND", default=64 * 1024)
# Readers of the feed that may wait in a web process (`?wait=`), of all consumers and of one. Each takes a thread and a
# connection, no slot; one more is answered at once. Well below the 500 connections that a process takes.
FEED_MAX_WAITING = env.int("FEED_MAX_WAITING", default=300)
FEED_MAX_WAITING_PER_CONSUMER = env.int("FEED_MAX_WAITING_PER_CONSUMER", default=20)
# Largest body of a form in the console and the portal (bytes). The signature debugger takes what an event may hold.
MAX_PAGE_BODY_BYTES = env.int("MAX_PAGE_BODY_BYTES", default=32 * 1024)
# A connection on which we spoke last and nothing has moved for so long is cut (seconds). Longer than the web server's
# own patience between requests (30).
CONNECTION_STALL_SECONDS = env.float("CONNECTION_STALL_SECONDS", default=40)

# ── Deliveries out ───────────────────────────────────────────────────────────────────────────────────────────────────

# Requests in flight per worker process. A slow receiver costs a coroutine, never a worker.
DELIVERY_CONCURRENCY = env.int("DELIVERY_CONCURRENCY", default=400)
# Seconds to wait before each attempt; as many attempts as entries, then the delivery is dead.
DELIVERY_RETRY_SCHEDULE = env.list("DELIVERY_RETRY_SCHEDULE", cast=int, default=[0, 60, 300, 1800, 7200, 36000, 86400])
# Wall-clock deadline of one attempt (seconds), unless the endpoint says otherwise (1–30).
DELIVERY_TIMEOUT_SECONDS = env.int("DELIVERY_TIMEOUT_SECONDS", default=10)
# Requests in flight per endpoint across all workers, unless the endpoint says otherwise.
DELIVERY_MAX_IN_FLIGHT = env.int("DELIVERY_MAX_IN_FLIGHT", default=10)
# Signature scheme of endpoints that name none: `timestamped` or `standard`.
DELIVERY_SIGNATURE_SCHEME = env.str("DELIVERY_SIGNATURE_SCHEME", default="timestamped")
# So many failures in a row open an endpoint's breaker: its backlog is parked, and one probe at a time goes out.
BREAKER_FAILURES = env.int("BREAKER_FAILURES", default=20)
# Wait before the first probe, doubled by every probe that fails, up to the longest (seconds).
BREAKER_COOLDOWN_SECONDS = env.int("BREAKER_COOLDOWN_SECONDS", default=10)
BREAKER_MAX_COOLDOWN_SECONDS = env.int("BREAKER_MAX_COOLDOWN_SECONDS", default=1800)
# A worker that has not renewed its lease for this long is taken for dead, and its deliveries go out again (seconds).
# Only a lost machine or container takes so long: of a worker that died on this machine, its successor knows at once.
DELIVERY_LEASE_SECONDS = env.float("DELIVERY_LEASE_SECONDS", default=10)
# How often a worker renews its lease (seconds).
DELIVERY_LEASE_RENEW_SECONDS = env.float("DELIVERY_LEASE_RENEW_SECONDS", default=2.5)
# How often due work that no message announced is looked for (seconds).
DELIVERY_SWEEP_SECONDS = env.float("DELIVERY_SWEEP_SECONDS", default=1)
# A pump with nothing to do for this long ends its task (seconds). The next event then waits for a new one to start,
# which takes some tenths of a second.
DELIVERY_IDLE_SECONDS = env.float("DELIVERY_IDLE_SECONDS", default=300)
# How long a worker that was told to stop waits for what is in flight (seconds). Attempts take 30 s at most.
DELIVERY_DRAIN_SECONDS = env.float("DELIVERY_DRAIN_SECONDS", default=35)
# Private and loopback targets are refused, except inside these networks (comma-separated CIDR).
DELIVERY_ALLOWED_NETWORKS = env.list("DELIVERY_ALLOWED_NETWORKS", default=[])
# Plain http: targets outside those networks.
DELIVERY_ALLOW_HTTP = env.bool("DELIVERY_ALLOW_HTTP", default=False)
# Ports a target may use outside those networks.
DELIVERY_ALLOWED_PORTS = env.list("DELIVERY_ALLOWED_PORTS", cast=int, default=[80, 443, 8080, 8443])
# All requests leave through this http proxy, when set.
DELIVERY_PROXY_URL = env.str("DELIVERY_PROXY_URL", default="")
# Where CloudEvents say that they come from; the consumer is added to it. A URI or a path.
CLOUDEVENTS_SOURCE = env.str("CLOUDEVENTS_SOURCE", default="/webhooks")
# What requests to receivers call themselves (`user-agent`).
DELIVERY_USER_AGENT = env.str("DELIVERY_USER_AGENT", default="webhooks-platform/1")

# For fault tests: a folder whose files kill or hold the process that reaches a named moment
# (subscriptions/process/fail_points.py).
# Refused without FAIL_POINTS_ALLOWED=true unless DEBUG is on (webhooks.E009). Never set either in production.
FAIL_POINTS_DIR = env.str("FAIL_POINTS_DIR", default="")
FAIL_POINTS_ALLOWED = env.bool("FAIL_POINTS_ALLOWED", default=False)

# Celery's own, but asleep until a task is due.
CELERY_BEAT_SCHEDULER = "webhooks_platform.beat:Scheduler"

# The sweep as a periodic task: it starts pumps where none runs, and replay jobs and announcements where some wait. A
# tick that waited too long is worth nothing: RabbitMQ drops it after so many seconds, and while ticks pile up in Redis
# beat sends no more (webhooks_platform/beat.py). Not `expires`, by which a worker whose clock is ahead drops them all.
CELERY_BEAT_SCHEDULE = {
    "sweep": {
        "task": "deliveries.sweep",
        "schedule": min(DELIVERY_SWEEP_SECONDS, 1),
        "options": {"expiration": 5},
    },
    "take-care": {"task": "deliveries.take_care", "schedule": 10, "options": {"expiration": 30}},
    "mail": {"task": "deliveries.upkeep.mail", "schedule": 10, "options": {"expiration": 30}},
    "fold-counts": {"task": "deliveries.fold_counts", "schedule": 2, "options": {"expiration": 10}},
    "forget": {"task": "deliveries.forget", "schedule": 600, "options": {"expiration": 600}},
    "forget-answers": {"task": "subscriptions.forget_answers", "schedule": 600, "options": {"expiration": 600}},
    "forget-logins": {"task": "console.forget_logins", "schedule": 3600, "options": {"expiration": 600}},
    "forget-visits": {"task": "subscriptions.forget_visits", "schedule": 3600, "options": {"expiration": 600}},
    "forget-keys": {"task": "subscriptions.forget_keys", "schedule": 3600, "options": {"expiration": 600}},
}

# ── Who hears of what ────────────────────────────────────────────────────────────────────────────────────────────────

# The uid of the consumer whose endpoints receive endpoint.warning, endpoint.disabled, endpoint.recovered and
# delivery.dead as webhooks. Nothing is sent while there is no such consumer.
OPERATOR_CONSUMER = env.str("OPERATOR_CONSUMER", default="operator")
# Where people reach this deployment, like https://webhooks.example.com: for links in mail. Without it, mail holds none,
# and goes to the contacts that producers named, since nobody else can be asked for consent.
PUBLIC_URL = env.str("PUBLIC_URL", default="").rstrip("/")
# A recipient gets at most one mail in so many minutes; what happens meanwhile is in the next one.
NOTIFICATION_MINUTES = env.int("NOTIFICATION_MINUTES", default=10)
# Addresses that hear about one consumer's endpoints, and how many may be added to them within a day.
MAX_MAIL_RECIPIENTS_PER_CONSUMER = env.int("MAX_MAIL_RECIPIENTS_PER_CONSUMER", default=10)
# Where mail to consumers leaves; without EMAIL_URL it is written to the log.
vars().update(env.email_url("EMAIL_URL", default="consolemail://"))
# How long a mail server may take to answer (seconds).
EMAIL_TIMEOUT = env.int("EMAIL_TIMEOUT", default=20)
DEFAULT_FROM_EMAIL = env.str("DEFAULT_FROM_EMAIL", default="webhooks@localhost")

# ── Retention (days) ─────────────────────────────────────────────────────────────────────────────────────────────────

# Each request and response in full.
RETENTION_ATTEMPT_DAYS = env.int("RETENTION_ATTEMPT_DAYS", default=30)
# The payloads of events whose every delivery succeeded.
RETENTION_PAYLOAD_DAYS = env.int("RETENTION_PAYLOAD_DAYS", default=30)
# Deliveries that succeeded.
RETENTION_DELIVERED_DAYS = env.int("RETENTION_DELIVERED_DAYS", default=90)
# Dead letters, with their payloads.
RETENTION_DEAD_DAYS = env.int("RETENTION_DEAD_DAYS", default=180)
# The audit log, and replay jobs that are over.
RETENTION_AUDIT_DAYS = env.int("RETENTION_AUDIT_DAYS", default=730)
# The console's statistics by the hour and the day; those by the minute are kept for two days.
RETENTION_STATISTICS_DAYS = env.int("RETENTION_STATISTICS_DAYS", default=90)
# Endpoints that were deleted, once no delivery of theirs is left.
RETENTION_DELETED_ENDPOINT_DAYS = env.int("RETENTION_DELETED_ENDPOINT_DAYS", default=7)
# Links to the portal and their sessions: who was let in, by whom, when.
RETENTION_VISIT_DAYS = env.int("RETENTION_VISIT_DAYS", default=90)
# API keys that were revoked or have expired. What they did is in the audit log.
RETENTION_KEY_DAYS = env.int("RETENTION_KEY_DAYS", default=90)

# ── Portal ───────────────────────────────────────────────────────────────────────────────────────────────────────────

# How long a link to the portal can be opened, once (minutes).
PORTAL_LINK_MINUTES = env.int("PORTAL_LINK_MINUTES", default=15)
# How long the session lasts that it opens (minutes).
PORTAL_SESSION_MINUTES = env.int("PORTAL_SESSION_MINUTES", default=120)
# Whose webhooks these are, for consumers who have never heard of this software. A link may say otherwise (`branding`).
PORTAL_NAME = env.str("PORTAL_NAME", default="Webhooks")
# Of an image, https: its host is then allowed to serve images to the portal. Empty for none.
PORTAL_LOGO_URL = env.str("PORTAL_LOGO_URL", default="")
# Of buttons and links, like #3451d1; made lighter or darker until it can be read.
PORTAL_ACCENT = env.str("PORTAL_ACCENT", default="#3451d1")
# Where a consumer asks for help: https or mailto. Empty for no link.
PORTAL_SUPPORT_URL = env.str("PORTAL_SUPPORT_URL", default="")
# The line at the end of every page. Empty for none.
PORTAL_LEGAL = env.str("PORTAL_LEGAL", default="")
# Origins whose pages may show the portal in a frame, like https://app.example.com. Its cookies then need TLS.
PORTAL_FRAME_ORIGINS = env.list("PORTAL_FRAME_ORIGINS", default=[])

# ── Console ──────────────────────────────────────────────────────────────────────────────────────────────────────────

# How long somebody stays logged in (hours).
SESSION_COOKIE_AGE = env.int("CONSOLE_SESSION_HOURS", default=12) * 3600
# Failed logins per quarter of an hour, for one account and for one address, before the next ones are refused.
LOGIN_FAILURES_PER_ACCOUNT = env.int("LOGIN_FAILURES_PER_ACCOUNT", default=10)
LOGIN_FAILURES_PER_ADDRESS = env.int("LOGIN_FAILURES_PER_ADDRESS", default=30)
# How many proxies of ours stand in front: that many entries at the end of X-Forwarded-For are believed.
PROXIES_IN_FRONT = env.int("PROXIES_IN_FRONT", default=1 if BEHIND_TLS else 0)
# True: who has no second factor (one-time codes) sees nothing but the page where one is set up.
CONSOLE_REQUIRE_SECOND_FACTOR = env.bool("CONSOLE_REQUIRE_SECOND_FACTOR", default=False)
# False: only single sign-on lets anybody in.
CONSOLE_PASSWORD_LOGIN = env.bool("CONSOLE_PASSWORD_LOGIN", default=True)
# Single sign-on with an OpenID Connect provider; off while OIDC_ISSUER is empty. Its redirect address is
# /admin/sign-on/callback/. The name is what the button says.
OIDC_ISSUER = env.str("OIDC_ISSUER", default="")
OIDC_CLIENT_ID = env.str("OIDC_CLIENT_ID", default="")
OIDC_CLIENT_SECRET = env.str("OIDC_CLIENT_SECRET", default="")
OIDC_NAME = env.str("OIDC_NAME", default="single sign-on")
OIDC_SCOPE = env.str("OIDC_SCOPE", default="openid email profile")
# The claim that lists somebody's groups (`realm_access.roles` goes deeper), and which groups operate or only look.
OIDC_GROUPS_CLAIM = env.str("OIDC_GROUPS_CLAIM", default="groups")
OIDC_OPERATOR_GROUPS = env.list("OIDC_OPERATOR_GROUPS", default=[])
OIDC_READ_ONLY_GROUPS = env.list("OIDC_READ_ONLY_GROUPS", default=[])

# The look of /admin/. Fonts, scripts and styles are all served from here.
UNFOLD = {
    "SITE_TITLE": "Webhooks",
    "SITE_HEADER": "Webhooks",
    "SITE_SUBHEADER": "Operators' console",
    "SITE_SYMBOL": "webhook",
    "SITE_URL": None,
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("console/icon.svg")}],
    "SHOW_VIEW_ON_SITE": False,
    "STYLES": [lambda request: static("console/console.css")],
    "SCRIPTS": [lambda request: static("console/console.js")],
    "SIDEBAR": {"navigation": "deliveries.console.navigation.groups"},
    "ACCOUNT": {"navigation": [{"title": "Your account", "link": reverse_lazy("admin:account")}]},
    "COLORS": {
        "primary": {
            "50": "oklch(97% .02 264)", "100": "oklch(93.5% .04 264)", "200": "oklch(88% .07 264)",
            "300": "oklch(80% .11 264)", "400": "oklch(70% .16 264)", "500": "oklch(62% .19 264)",
            "600": "oklch(53% .2 264)", "700": "oklch(47% .19 264)", "800": "oklch(41% .16 264)",
            "900": "oklch(36% .13 264)", "950": "oklch(27% .09 264)",
        }
    },
}  # fmt: skip

# ── API ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["subscriptions.api.authentication.KeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["subscriptions.api.authentication.HasRole"],
    "DEFAULT_PARSER_CLASSES": ["subscriptions.api.parsing.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["subscriptions.api.rendering.OrjsonRenderer"],
    "EXCEPTION_HANDLER": "subscriptions.api.problems.handle",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
    "DEFAULT_METADATA_CLASS": None,
    # Let answers be negotiated by nobody: everything is JSON.
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "subscriptions.api.rendering.AlwaysJSON",
}

# ── Metrics ──────────────────────────────────────────────────────────────────────────────────────────────────────────

# Who sends this as bearer reads /metrics, and nothing else; so does an operator's API key. Empty: only the latter.
METRICS_TOKEN = env.str("METRICS_TOKEN", default="")
# What one answer of /metrics is made from serves all of the next so many seconds.
METRICS_CACHE_SECONDS = env.float("METRICS_CACHE_SECONDS", default=1)
# Deliveries of a state are counted one by one up to here; above, PostgreSQL's own estimate is shown.
METRICS_COUNT_UP_TO = env.int("METRICS_COUNT_UP_TO", default=100_000)

# ── Traces and error reports ─────────────────────────────────────────────────────────────────────────────────────────

# An OpenTelemetry collector that takes OTLP over HTTP, like http://collector:4318. Empty: no traces. Other variables of
# OpenTelemetry's SDK count, too: OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS, OTEL_BSP_MAX_QUEUE_SIZE and so on.
OTEL_EXPORTER_OTLP_ENDPOINT = env.str("OTEL_EXPORTER_OTLP_ENDPOINT", default="")
OTEL_SERVICE_NAME = env.str("OTEL_SERVICE_NAME", default="webhooks-platform")
# Where errors are reported to Sentry: never payloads, secrets or what an exception says. Empty: nowhere.
SENTRY_DSN = env.str("SENTRY_DSN", default="")
SENTRY_ENVIRONMENT = env.str("SENTRY_ENVIRONMENT", default="production")

# ── Logs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

# `json`: one object per line. `text`: for people.
LOG_FORMAT = env.str("LOG_FORMAT", default="json")
# `DEBUG`, `INFO`, `WARNING` or `ERROR`.
LOG_LEVEL = env.str("LOG_LEVEL", default="INFO")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {"()": "webhooks_platform.logs.JsonFormatter"},
        "text": {"()": "webhooks_platform.logs.TextFormatter"},
    },
    "filters": {"refusals": {"()": "webhooks_platform.logs.RefusalsInOneLine"}},
    "handlers": {
        "stdout": {
            "class": "logging.StreamHandler",
            "stream": "ext://sys.stdout",
            "formatter": LOG_FORMAT,
            "filters": ["refusals"],
        }
    },
    "root": {"handlers": ["stdout"], "level": LOG_LEVEL},
    "loggers": {
        "celery": {"level": "WARNING"},
        # Nothing past our formatters, which cut out tokens: Django would write to other places, too, with DEBUG on.
        "django": {"level": "INFO", "handlers": []},
        # A refused request is the caller's business; its problem document says why.
        "django.request": {"level": "ERROR"},
        "django.server": {"level": "WARNING"},
    },
}
