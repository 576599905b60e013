from django.contrib import admin
from django.urls import path
from webhooks_client.django.outbox import metrics
from webhooks_client.django.receipts import DjangoStore
from webhooks_client.receive import Receiver
from webhooks_client.receive.adapters import django_view

received: list[str] = []
receiver = Receiver("whsec_c2VjcmV0", store=DjangoStore(), work=lambda event, _: received.append(event.id))

urlpatterns = [
    path("admin/", admin.site.urls),
    path("metrics", metrics.view),
    path("webhooks/", django_view(receiver)),
]
