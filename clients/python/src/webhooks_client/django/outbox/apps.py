from django.apps import AppConfig


class OutboxConfig(AppConfig):
    name = "webhooks_client.django.outbox"
    label = "webhooks_outbox"
    verbose_name = "Webhooks outbox"
    default_auto_field = "django.db.models.BigAutoField"
