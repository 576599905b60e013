"""Every address the platform answers. API paths work with and without the trailing slash."""

from django.contrib import admin
from django.urls import include, path

from deliveries.api import metrics
from deliveries.console import errors
from deliveries.portal import site
from webhooks_platform import health
from webhooks_platform.api_routes import ROUTES
from webhooks_platform.openapi.index import INDEX
from webhooks_platform.openapi.pages import docs, entrance, schema

handler400 = errors.bad_request
handler403 = errors.permission_denied
handler404 = errors.page_not_found
handler500 = errors.server_error


urlpatterns = [
    *(route.pattern() for route in (*ROUTES, INDEX)),
    path("", entrance),
    path("api/", entrance),
    path("api", entrance),
    path("api/schema/", schema, name="api-schema"),
    path("api/schema", schema),
    path("api/docs/", docs, name="api-docs"),
    path("api/docs", docs),
    path("admin/", admin.site.urls),
    path("portal/", include((site.urlpatterns, "portal"))),
    path("metrics", metrics.show),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
]
