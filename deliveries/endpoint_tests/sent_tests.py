"""The log of test events: each with its request and answer, the newest few of an endpoint."""

from deliveries.endpoint_tests.models import SentTest
from deliveries.endpoint_tests.test_event import Trial
from deliveries.send import Answered
from subscriptions.models import Endpoint

KEPT = 20
# As much of a response as an attempt keeps, and of an error as its column holds (bytes, characters).
_LONGEST_BODY, _LONGEST_DETAIL = 8192, 255


def keep(endpoint: Endpoint, trial: Trial, *, sent_by: str, most: int = KEPT) -> SentTest:
    result = trial.result
    answer = result if isinstance(result, Answered) else None
    kept = SentTest.objects.create(
        endpoint=endpoint,
        sent_by=sent_by[:255],
        event_id=trial.event_id,
        type=trial.type,
        url=trial.request.url,
        started_at=result.started_at,
        duration_ms=result.duration_ms,
        request_headers=list(trial.request_headers),
        request_body=trial.request.body,
        status_code=answer.status_code if answer else None,
        response_headers=list(answer.headers) if answer else None,
        response_body=answer.body[:_LONGEST_BODY] if answer else None,
        error_kind=None if isinstance(result, Answered) else result.error_kind,
        error_detail=None if isinstance(result, Answered) else result.detail[:_LONGEST_DETAIL],
    )
    of_endpoint = SentTest.objects.filter(endpoint=endpoint).order_by("-id").values_list("id", flat=True)
    if too_many := list(of_endpoint[most : most + 100]):
        SentTest.objects.filter(id__in=too_many).delete()
    return kept
