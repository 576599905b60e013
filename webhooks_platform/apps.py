"""Registers the start-up checks."""

from django.apps import AppConfig


class PlatformConfig(AppConfig):
    name = "webhooks_platform"
    verbose_name = "Webhooks platform"

    def ready(self) -> None:
        from webhooks_platform import checks  # noqa: F401  (registers itself)
