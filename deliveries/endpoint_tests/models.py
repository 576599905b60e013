"""Test events and check-ups: whose turn it is, what was sent, what came back."""

from django.db import models

from subscriptions import ids
from subscriptions.models import Consumer, Endpoint


class TrialSlot(models.Model):
    """A consumer's one place for tests and check-ups, which are sent outside the queue: see endpoint_tests/. The claim
    counts a test that is under way as one of its endpoint's requests in flight."""

    consumer = models.OneToOneField(Consumer, primary_key=True, on_delete=models.CASCADE)
    endpoint_id = models.UUIDField()
    # Whose it is: who comes back late frees no slot that somebody else has taken meanwhile.
    token = models.UUIDField()
    # The test is under way until then at the latest: a process that was killed frees nothing.
    ends_at = models.DateTimeField()
    # The next may begin.
    free_at = models.DateTimeField()

    class Meta:
        indexes = [
            # claim.py counts the test of an endpoint.
            models.Index(fields=["endpoint_id"], name="trial_slot_of_endpoint"),
        ]

    def __str__(self) -> str:
        return f"test of {ids.show('ep', self.endpoint_id)}"


class SentTest(models.Model):
    """A test event that somebody sent by hand, with its answer. Not a delivery: nothing is owed, and the endpoint's
    health and statistics hear nothing. The newest few of an endpoint are kept (endpoint_tests/sent_tests.py)."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, db_index=False)
    sent_by = models.CharField(max_length=255)
    event_id = models.CharField(max_length=64)
    type = models.CharField(max_length=255)
    url = models.CharField(max_length=2048)
    started_at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField()
    request_headers = models.JSONField()
    request_body = models.BinaryField()
    status_code = models.PositiveSmallIntegerField(null=True, blank=True)
    error_kind = models.CharField(max_length=32, null=True, blank=True)
    error_detail = models.CharField(max_length=255, null=True, blank=True)
    response_headers = models.JSONField(null=True, blank=True)
    response_body = models.BinaryField(null=True, blank=True)

    class Meta:
        # The newest of an endpoint.
        indexes = [models.Index(fields=["endpoint", "-id"], name="sent_test_of_endpoint")]

    def __str__(self) -> str:
        return f"test {self.type} to {ids.show('ep', self.endpoint_id)}"

    @property
    def public_id(self) -> str:
        return ids.show("tst", self.id)


class CheckUp(models.Model):
    """The last check-up of an endpoint: what it was sent, what it answered, what that means. Apart from the endpoint,
    whose row every event reads."""

    endpoint = models.OneToOneField(Endpoint, primary_key=True, on_delete=models.CASCADE, related_name="check_up")
    started_at = models.DateTimeField()
    # Null until the first one has ended.
    report = models.JSONField(null=True, blank=True)

    class Meta:
        app_label = "subscriptions"  # whose table it is

    def __str__(self) -> str:
        return f"check-up of {ids.show('ep', self.endpoint_id)}"
