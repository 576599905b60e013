"""The console's accounts as a Django app: it has tables of its own."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "deliveries.console.accounts"
    label = "console_accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from deliveries.console.accounts import second_factor
        from subscriptions.secrets import reencrypt

        reencrypt.seals_too(second_factor.reencrypt_each)
