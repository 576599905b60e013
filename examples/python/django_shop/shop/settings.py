import os

SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "only-for-this-example")
INSTALLED_APPS = ["shop", "webhooks_client.django.outbox"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_DATABASE", "shop.sqlite3"),
        # Writers wait for each other instead of failing.
        "OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode = WAL"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
# WEBHOOKS_URL and WEBHOOKS_KEY come from the environment.
