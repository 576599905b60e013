"""Every route of the API: its path below /api/v1/, its view and its name. The index is beside them, in openapi/."""

from typing import NamedTuple

from django.urls import URLPattern, re_path

from deliveries.api import audit, deliveries, endpoints, events, feed, replays, statistics
from subscriptions.api import consumers, event_types, keys, signature_profiles
from subscriptions.api.views import ApiView


class ApiRoute(NamedTuple):
    # With a name in braces for each id: `consumers/{consumer}/keys`.
    template: str
    view: type[ApiView]
    name: str

    @property
    def path(self) -> str:
        return f"/api/v1/{self.template}/" if self.template else "/api/v1/"

    def pattern(self) -> URLPattern:
        """With and without the trailing slash; one named group per segment in braces."""
        groups = self.template.replace("{", "(?P<").replace("}", ">[^/]+)")
        return re_path(rf"^api/v1/{groups}/?$" if groups else r"^api/v1/?$", self.view.as_view(), name=self.name)


ROUTES = (
    # First, since patterns are tried in order and most requests are these.
    ApiRoute("events", events.EventList, "events"),
    ApiRoute("events/batch", events.EventBatch, "event-batch"),
    ApiRoute("consumers", consumers.ConsumerList, "consumers"),
    ApiRoute("consumers/{consumer}", consumers.ConsumerDetail, "consumer"),
    ApiRoute("consumers/{consumer}/keys", keys.KeyList, "keys"),
    ApiRoute("consumers/{consumer}/keys/{key}", keys.KeyDetail, "key"),
    ApiRoute("consumers/{consumer}/keys/{key}/rotate", keys.KeyRotate, "key-rotate"),
    ApiRoute("consumers/{consumer}/endpoints", endpoints.EndpointList, "endpoints"),
    ApiRoute("consumers/{consumer}/portal-link", consumers.PortalLink, "portal-link"),
    ApiRoute("consumers/{consumer}/feed", feed.Feed, "feed"),
    ApiRoute("consumers/{consumer}/stats", statistics.ConsumerStats, "consumer-stats"),
    ApiRoute("event-types", event_types.EventTypeList, "event-types"),
    ApiRoute("event-types/{name}", event_types.EventTypeDetail, "event-type"),
    ApiRoute("signature-profiles", signature_profiles.ProfileList, "signature-profiles"),
    ApiRoute("signature-profiles/{profile}", signature_profiles.ProfileDetail, "signature-profile"),
    ApiRoute("endpoints/{endpoint}", endpoints.EndpointDetail, "endpoint"),
    ApiRoute("endpoints/{endpoint}/rotate-secret", endpoints.RotateSecret, "rotate-secret"),
    ApiRoute("endpoints/{endpoint}/pause", endpoints.Pause, "pause"),
    ApiRoute("endpoints/{endpoint}/resume", endpoints.Resume, "resume"),
    ApiRoute("endpoints/{endpoint}/test", endpoints.Test, "test"),
    ApiRoute("endpoints/{endpoint}/check-up", endpoints.EndpointCheckUp, "check-up"),
    ApiRoute("endpoints/{endpoint}/stats", statistics.EndpointStats, "endpoint-stats"),
    ApiRoute("endpoints/{endpoint}/deliveries", deliveries.EndpointDeliveries, "endpoint-deliveries"),
    ApiRoute("events/{event}", events.EventDetail, "event"),
    ApiRoute("events/{event}/deliveries", events.EventDeliveries, "event-deliveries"),
    ApiRoute("deliveries", deliveries.DeliveryList, "deliveries"),
    ApiRoute("deliveries/{delivery}", deliveries.DeliveryDetail, "delivery"),
    ApiRoute("deliveries/{delivery}/replay", replays.DeliveryReplay, "delivery-replay"),
    ApiRoute("replays", replays.ReplayList, "replays"),
    ApiRoute("replays/{replay}", replays.ReplayDetail, "replay"),
    ApiRoute("replays/{replay}/cancel", replays.ReplayCancel, "replay-cancel"),
    ApiRoute("audit", audit.AuditList, "audit"),
)
