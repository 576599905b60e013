"""Every address the platform answers. API paths work with and without the trailing slash."""

from django.contrib import admin
from django.urls import URLPattern, include, path, re_path
from rest_framework.views import APIView

from deliveries.api import audit, deliveries, endpoints, events, feed, metrics, replays, statistics
from deliveries.console import errors
from deliveries.portal import site
from subscriptions.api import consumers, event_types, keys
from webhooks_platform import health

handler400 = errors.bad_request
handler403 = errors.permission_denied
handler404 = errors.page_not_found
handler500 = errors.server_error


def api(route: str, view: type[APIView], name: str) -> URLPattern:
    """`consumers/{consumer}/keys` → a pattern with one named group per segment in braces."""
    pattern = route.replace("{", "(?P<").replace("}", ">[^/]+)")
    return re_path(rf"^api/v1/{pattern}/?$", view.as_view(), name=name)


urlpatterns = [
    # First, since patterns are tried in order and most requests are these.
    api("events", events.EventList, "events"),
    api("events/batch", events.EventBatch, "event-batch"),
    api("consumers", consumers.ConsumerList, "consumers"),
    api("consumers/{consumer}", consumers.ConsumerDetail, "consumer"),
    api("consumers/{consumer}/keys", keys.KeyList, "keys"),
    api("consumers/{consumer}/keys/{key}", keys.KeyDetail, "key"),
    api("consumers/{consumer}/keys/{key}/rotate", keys.KeyRotate, "key-rotate"),
    api("consumers/{consumer}/endpoints", endpoints.EndpointList, "endpoints"),
    api("consumers/{consumer}/portal-link", consumers.PortalLink, "portal-link"),
    api("consumers/{consumer}/feed", feed.Feed, "feed"),
    api("consumers/{consumer}/stats", statistics.ConsumerStats, "consumer-stats"),
    api("event-types", event_types.EventTypeList, "event-types"),
    api("event-types/{name}", event_types.EventTypeDetail, "event-type"),
    api("endpoints/{endpoint}", endpoints.EndpointDetail, "endpoint"),
    api("endpoints/{endpoint}/rotate-secret", endpoints.RotateSecret, "rotate-secret"),
    api("endpoints/{endpoint}/pause", endpoints.Pause, "pause"),
    api("endpoints/{endpoint}/resume", endpoints.Resume, "resume"),
    api("endpoints/{endpoint}/test", endpoints.Test, "test"),
    api("endpoints/{endpoint}/check-up", endpoints.EndpointCheckUp, "check-up"),
    api("endpoints/{endpoint}/stats", statistics.EndpointStats, "endpoint-stats"),
    api("endpoints/{endpoint}/deliveries", deliveries.EndpointDeliveries, "endpoint-deliveries"),
    api("events/{event}", events.EventDetail, "event"),
    api("events/{event}/deliveries", events.EventDeliveries, "event-deliveries"),
    api("deliveries", deliveries.DeliveryList, "deliveries"),
    api("deliveries/{delivery}", deliveries.DeliveryDetail, "delivery"),
    api("deliveries/{delivery}/replay", replays.DeliveryReplay, "delivery-replay"),
    api("replays", replays.ReplayList, "replays"),
    api("replays/{replay}", replays.ReplayDetail, "replay"),
    api("replays/{replay}/cancel", replays.ReplayCancel, "replay-cancel"),
    api("audit", audit.AuditList, "audit"),
    path("admin/", admin.site.urls),
    path("portal/", include((site.urlpatterns, "portal"))),
    path("metrics", metrics.show),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
]
