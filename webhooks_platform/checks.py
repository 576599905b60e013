"""Start-up checks: nonsense in the settings stops every command, with the fix in the message."""

import re
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from ipaddress import ip_network
from typing import Any

from django.conf import settings
from django.core.checks import Error, register
from django.core.exceptions import ImproperlyConfigured

from subscriptions.secrets.vault import VaultError, parse_keys
from subscriptions.signing.ready_made import READY_MADE

Finding = tuple[str, str]  # what is wrong, how to put it right
Check = Callable[[], Iterator[Finding]]


@register
def check_settings(app_configs: Sequence[Any] | None, **_: Any) -> list[Error]:
    return _errors(_CHECKS | _CHECKS_OF_PAGES)


def refuse_nonsense(*, pages: bool = False) -> None:
    """For processes that are no management command and so run no checks: the web server, workers, beat.

    What is only on pages concerns the web server alone: looking at it loads the API, which no worker needs to start.
    """
    errors = _errors(_CHECKS | _CHECKS_OF_PAGES if pages else _CHECKS)
    if errors:
        raise SystemExit("\n".join(f"{error.id}: {error.msg}\n  {error.hint}" for error in errors))


def _errors(checks: dict[str, Check]) -> list[Error]:
    return [
        Error(what, hint=fix, id=f"webhooks.{number}") for number in sorted(checks) for what, fix in checks[number]()
    ]


def _portal() -> Iterator[Finding]:
    given = {
        "accent": settings.PORTAL_ACCENT, "logo_url": settings.PORTAL_LOGO_URL,
        "support_url": settings.PORTAL_SUPPORT_URL, "name": settings.PORTAL_NAME, "legal": settings.PORTAL_LEGAL,
    }  # fmt: skip
    from subscriptions.api.branding import BrandingIn  # see `refuse_nonsense`

    shape = BrandingIn(data={name: value for name, value in given.items() if value})
    if not shape.is_valid():
        for name, problems in shape.errors.items():
            yield f"PORTAL_{name.upper()} is refused: {problems[0]}", "Change it, or leave it unset."
    for origin in settings.PORTAL_FRAME_ORIGINS:
        if re.fullmatch(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?", origin) is None:
            yield (
                f"PORTAL_FRAME_ORIGINS holds {origin!r}, which is no origin.",
                "Write scheme and host and nothing else, like https://app.example.com.",
            )


def _public_url() -> Iterator[Finding]:
    if settings.PUBLIC_URL and re.fullmatch(r"https?://[A-Za-z0-9.\-\[\]:]+", settings.PUBLIC_URL) is None:
        yield (
            f"PUBLIC_URL is {settings.PUBLIC_URL!r}, which is no origin.",
            "Write scheme and host and nothing else, like https://webhooks.example.com.",
        )


def _secret_key() -> Iterator[Finding]:
    try:
        secret_key = settings.SECRET_KEY
    except ImproperlyConfigured:  # Django's own word for an empty one
        secret_key = ""
    if len(secret_key) < 32:
        yield (
            "SECRET_KEY is missing or shorter than 32 characters.",
            'Set it, e.g. to the output of: python -c "import secrets; print(secrets.token_urlsafe(50))"',
        )


def _encryption_keys() -> Iterator[Finding]:
    try:
        parse_keys(settings.ENCRYPTION_KEYS)
    except VaultError as error:
        yield (
            str(error),
            "Set ENCRYPTION_KEYS, e.g. to the output of: "
            "python -c \"import base64, os; print('k1:' + base64.b64encode(os.urandom(32)).decode())\"",
        )


def _lease() -> Iterator[Finding]:
    lease, renew = settings.DELIVERY_LEASE_SECONDS, settings.DELIVERY_LEASE_RENEW_SECONDS
    if renew <= 0 or lease < 2 * renew:
        yield (
            f"A lease of {lease:g} s renewed every {renew:g} s would run out when a single renewal is late.",
            "Make DELIVERY_LEASE_SECONDS at least twice DELIVERY_LEASE_RENEW_SECONDS (defaults: 10 and 2.5).",
        )
    if lease <= 0 or settings.DELIVERY_SWEEP_SECONDS <= 0 or settings.DELIVERY_IDLE_SECONDS <= 0:
        yield (
            "DELIVERY_LEASE_SECONDS, DELIVERY_SWEEP_SECONDS and DELIVERY_IDLE_SECONDS must be above 0.",
            "Leave them unset for 15, 1 and 5 seconds.",
        )


def _schedule() -> Iterator[Finding]:
    schedule = settings.DELIVERY_RETRY_SCHEDULE
    if not schedule:
        yield "DELIVERY_RETRY_SCHEDULE is empty: nothing would ever be sent.", "Give at least one wait, e.g. 0,60,300."
    elif len(schedule) > 20 or not all(0 <= wait <= 7 * 86_400 for wait in schedule):
        yield (
            f"DELIVERY_RETRY_SCHEDULE makes no sense: {','.join(map(str, schedule))}.",
            "Give 1 to 20 waits in seconds, each from 0 to 604800 (a week), e.g. 0,60,300,1800,7200,36000,86400.",
        )


def _limits() -> Iterator[Finding]:
    ranges = {
        "DELIVERY_CONCURRENCY": (1, 100_000),
        "DELIVERY_TIMEOUT_SECONDS": (1, 30),
        "DELIVERY_MAX_IN_FLIGHT": (1, 1000),
        "BREAKER_FAILURES": (1, 1_000_000),
        "BREAKER_COOLDOWN_SECONDS": (1, 86_400),
        "BREAKER_MAX_COOLDOWN_SECONDS": (1, 86_400),
        "MAX_BODY_BYTES": (1024, 64 * 1024 * 1024),
        "MAX_BATCH_EVENTS": (1, 10_000),
        "MAX_PAGE_BODY_BYTES": (1024, 64 * 1024 * 1024),
        "WEB_SLOTS": (1, 500),
        "NOTIFICATION_MINUTES": (1, 1440),
        "MAX_MAIL_RECIPIENTS_PER_CONSUMER": (1, 1000),
        "EMAIL_TIMEOUT": (1, 240),
        "FEED_MAX_WAITING": (0, 400),
        "FEED_MAX_WAITING_PER_CONSUMER": (0, 400),
        "REQUEST_BODY_TIMEOUT_SECONDS": (0.1, 300),
        "REQUEST_BODY_MIN_BYTES_PER_SECOND": (1, 1 << 40),
        "CONNECTION_STALL_SECONDS": (0.1, 3600),
        "RETENTION_ATTEMPT_DAYS": (1, 36_500),
        "RETENTION_PAYLOAD_DAYS": (1, 36_500),
        "RETENTION_DELIVERED_DAYS": (1, 36_500),
        "RETENTION_DEAD_DAYS": (1, 36_500),
        "RETENTION_VISIT_DAYS": (1, 36_500),
        "LOGIN_FAILURES_PER_ACCOUNT": (1, 10_000),
        "LOGIN_FAILURES_PER_ADDRESS": (1, 100_000),
        "PROXIES_IN_FRONT": (0, 10),
        "RETENTION_KEY_DAYS": (1, 36_500),
        "PORTAL_LINK_MINUTES": (1, 24 * 60),
        "PORTAL_SESSION_MINUTES": (1, 7 * 24 * 60),
        "IDEMPOTENCY_HOURS": (1, 24 * 365),
        "MAX_ENDPOINTS_PER_CONSUMER": (1, 100_000),
        "MAX_CHANGES_PER_DAY": (1, 1_000_000),
        "METRICS_CACHE_SECONDS": (0, 60),
        "METRICS_COUNT_UP_TO": (1, 100_000_000),
        "MAX_KEYS_PER_CONSUMER": (1, 10_000),
        "MAX_RUNNING_REPLAYS_PER_CONSUMER": (1, 100_000),
        "MAX_NEW_ENDPOINTS_PER_DAY": (1, 1_000_000),
        # Not below two: those of the last day are counted.
        "RETENTION_DELETED_ENDPOINT_DAYS": (2, 36_500),
    }
    for name, (low, high) in ranges.items():
        if not low <= getattr(settings, name) <= high:
            yield f"{name} is {getattr(settings, name)}.", f"Set it to a number from {low} to {high}."
    if settings.MAX_BATCH_BODY_BYTES < settings.MAX_BODY_BYTES:
        yield "MAX_BATCH_BODY_BYTES is below MAX_BODY_BYTES.", "A batch must have room for its largest event."


def _networks() -> Iterator[Finding]:
    for network in settings.DELIVERY_ALLOWED_NETWORKS:
        try:
            ip_network(network)
        except ValueError as error:
            yield f"DELIVERY_ALLOWED_NETWORKS: {error}.", "Give networks as CIDR, e.g. 127.0.0.0/8,::1/128."
    if not all(1 <= port <= 65535 for port in settings.DELIVERY_ALLOWED_PORTS):
        yield "DELIVERY_ALLOWED_PORTS holds a number that is no port.", "Give ports from 1 to 65535, e.g. 443,8443."


def _choices() -> Iterator[Finding]:
    if settings.UNKNOWN_EVENT_TYPES not in ("register", "refuse"):
        yield f"UNKNOWN_EVENT_TYPES is {settings.UNKNOWN_EVENT_TYPES!r}.", "Set it to `register` or `refuse`."
    if settings.DELIVERY_SIGNATURE_SCHEME not in READY_MADE:
        yield (
            f"DELIVERY_SIGNATURE_SCHEME is {settings.DELIVERY_SIGNATURE_SCHEME!r}.",
            f"Set it to one of {', '.join(READY_MADE)}.",
        )


def _sign_on() -> Iterator[Finding]:
    if settings.OIDC_ISSUER and not (settings.OIDC_CLIENT_ID and settings.OIDC_CLIENT_SECRET):
        yield "OIDC_ISSUER is set without a client.", "Set OIDC_CLIENT_ID and OIDC_CLIENT_SECRET, or empty OIDC_ISSUER."
    if settings.OIDC_ISSUER and not (settings.OIDC_OPERATOR_GROUPS or settings.OIDC_READ_ONLY_GROUPS):
        yield (
            "OIDC_ISSUER is set, and no group may enter.",
            "Name groups of the provider in OIDC_OPERATOR_GROUPS or OIDC_READ_ONLY_GROUPS.",
        )
    if not settings.CONSOLE_PASSWORD_LOGIN and not settings.OIDC_ISSUER:
        yield (
            "Nobody could log in: passwords are off, and so is sign-on.",
            "Set OIDC_ISSUER, or CONSOLE_PASSWORD_LOGIN=true.",
        )


def _fail_points() -> Iterator[Finding]:
    if settings.FAIL_POINTS_DIR and not (settings.FAIL_POINTS_ALLOWED or settings.DEBUG):
        yield (
            "FAIL_POINTS_DIR is set: whoever can write to that folder could kill this process.",
            "Unset it. Only a fault test sets it, together with FAIL_POINTS_ALLOWED=true.",
        )


def _metrics_token() -> Iterator[Finding]:
    if settings.METRICS_TOKEN and len(settings.METRICS_TOKEN) < 16:
        yield (
            "METRICS_TOKEN is shorter than 16 characters, and so can be guessed.",
            'Set it, e.g. to the output of: python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )


def _extras() -> Iterator[Finding]:
    wanted = {
        "tracing": ("OTEL_EXPORTER_OTLP_ENDPOINT", "opentelemetry.exporter.otlp.proto.http"),
        "sentry": ("SENTRY_DSN", "sentry_sdk"),
    }
    for extra, (setting, package) in wanted.items():
        if getattr(settings, setting) and not _is_installed(package):
            yield f"{setting} is set, but what it needs is not installed.", f"Install the extra `{extra}`, or unset it."


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # nor is what it is a part of
        return False


_CHECKS: dict[str, Check] = {
    "E001": _secret_key,
    "E002": _encryption_keys,
    "E003": _lease,
    "E004": _schedule,
    "E005": _limits,
    "E006": _networks,
    "E007": _choices,
    "E008": _sign_on,
    "E009": _fail_points,
    "E011": _metrics_token,
    "E012": _public_url,
    "E013": _extras,
}
_CHECKS_OF_PAGES: dict[str, Check] = {"E010": _portal}
