from django.apps import AppConfig


class ReceiptsConfig(AppConfig):
    name = "webhooks_client.django.receipts"
    label = "webhooks_receipts"
    verbose_name = "Webhooks received"
    default_auto_field = "django.db.models.BigAutoField"
