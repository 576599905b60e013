"""Receipts: what a Django project has received. `DjangoStore` is a store for `webhooks_client.receive.Receiver`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webhooks_client.django.receipts.store import DjangoStore

__all__ = ["DjangoStore"]


def __getattr__(name: str) -> Any:
    # Later than the import of this package: models need the apps to be loaded.
    if name == "DjangoStore":
        from webhooks_client.django.receipts.store import DjangoStore

        return DjangoStore
    raise AttributeError(name)
