"""The relay as a Celery task, for beat: every few seconds. Needs the extra `celery`.

    CELERY_BEAT_SCHEDULE = {"webhooks": {"task": "webhooks_client.relay_outbox", "schedule": 5.0}}

Two at once do no harm; a lost one is made good by the next.
"""

from celery import shared_task

from webhooks_client.django.outbox import configured, relay


@shared_task(name="webhooks_client.relay_outbox", ignore_result=True)  # type: ignore[untyped-decorator,unused-ignore]
def relay_outbox() -> int:
    with configured.client() as client:
        return relay.send_all(client).count


@shared_task(name="webhooks_client.clean_up_outbox", ignore_result=True)  # type: ignore[untyped-decorator,unused-ignore]
def clean_up_outbox() -> int:
    return relay.clean_up()
