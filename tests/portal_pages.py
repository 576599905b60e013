"""Every page of the portal with something on it: of a consumer whose endpoints work, fail and are paused."""

from datetime import timedelta

from django.utils import timezone

from deliveries import replay
from deliveries.actions import endpoints as endpoint_actions
from deliveries.actions import manual_sends
from deliveries.browse.filter import Filter
from deliveries.claim import Claimed
from deliveries.endpoint_tests import check_up
from deliveries.models import Delivery
from deliveries.settle import Outcome
from deliveries.statistics import rollup, totals
from subscriptions import consumers, endpoints, event_types, keys, mail_recipients
from subscriptions.audit import Actor
from subscriptions.models import Consumer, Endpoint, Role
from tests.receiver import Receiver, Reply
from tests.walk import accept, answered, answering, claim_for, new_endpoint, pass_time, settle_all, unanswered

WHO = Actor.of_user("olga")
SCHEMA = {
    "type": "object",
    "required": ["number", "amount"],
    "properties": {
        "number": {"type": "string", "description": "The invoice's number.", "maxLength": 40},
        "amount": {"type": "integer", "description": "In cents.", "minimum": 0},
        "currency": {"enum": ["EUR", "USD"], "description": "Three letters."},
        "customer": {"type": "object", "properties": {"name": {"type": "string"}, "city": {"type": "string"}}},
    },
}
EXAMPLE = {"number": "2026-0042", "amount": 129900, "currency": "EUR", "customer": {"name": "Zoë Øst"}}
TYPES = {
    "invoice.paid": "An invoice was paid in full.",
    "invoice.sent": "An invoice was sent to the customer.",
    "order.cancelled": "An order was taken back before it was shipped.",
    "order.made": "A customer has placed an order.",
}
# Each page that can be opened, by the name of its address. What a hand-over shows once is looked at where it is made.
PATHS = {
    "home": "", "signatures": "signatures/?delivery={delivery}", "events": "events/",
    "event-type": "events/invoice.paid/", "endpoint-new": "endpoints/new/", "endpoint": "endpoints/{endpoint}/",
    "endpoint-edit": "endpoints/{endpoint}/edit/", "missed": "endpoints/{other}/missed/",
    "test": "endpoints/{endpoint}/test/?type=invoice.paid&sent={test}",
    "secret": "endpoints/{endpoint}/secret/none/",
    "deliveries": "deliveries/", "delivery": "deliveries/{delivery}/", "sent-test": "tests/{test}/",
    "catch-up": "catch-up/", "keys": "keys/", "key-shown": "keys/shown/none/", "notifications": "notifications/",
    "replays": "replays/", "replay-new": "replays/new/?endpoint={endpoint}&state=dead", "replay": "replays/{replay}/",
}  # fmt: skip
# The same addresses in other states.
BESIDE = {
    "endpoint-working": "endpoints/{working}/", "endpoint-paused": "endpoints/{other}/",
    "deliveries-dead": "deliveries/?endpoint={endpoint}&state=dead", "deliveries-none": "deliveries/?q=nothing",
    "delivery-delivered": "deliveries/{delivered}/",
}  # fmt: skip


def declare_types() -> None:
    for name, description in TYPES.items():
        version = {"api_version": "2026-01-01", "schema": SCHEMA, "example": EXAMPLE}
        event_types.create(name=name, description=description, versions=[version] if "invoice" in name else [])


def furnish(acme: Consumer, receiver: Receiver) -> dict[str, str]:
    """What the paths name."""
    declare_types()
    consumers.update(acme, {"contact_email": "ops@acme.test"})
    mail_recipients.add(acme, email="on-call@acme.test", kinds=["failing", "disabled"])
    working, failing, paused = _endpoints(acme, receiver)
    delivered = _history(acme, working, failing)
    accept(acme, 3, type="order.made")
    done = replay.start(Filter(endpoint_id=failing.id), consumer=acme, rate_per_second=None, requested_by=str(WHO))
    replay.advance_all()
    claimed = claim_for(failing).deliveries
    settle_all(*(answered(each, 200 if place % 3 else 500) for place, each in enumerate(claimed)))
    accept(acme, 2, type="invoice.sent")
    settle_all(*(answered(each, 500) for each in claim_for(failing).deliveries))
    keys.issue(role=Role.CONSUMER, consumer=acme, name="catch-up job", scopes=["events:read"])
    keys.issue(
        role=Role.CONSUMER, consumer=acme, name="a colleague's laptop", expires_at=timezone.now() + timedelta(days=30)
    )
    check_up.run(failing, transport=answering(200))
    receiver.answer = lambda received: Reply(500, b'{"error": "database is away"}')
    _, test = manual_sends.send_test(working, actor=WHO, why="", type="invoice.paid", data=EXAMPLE)
    endpoint_actions.rotate_secret(failing, overlap_seconds=86_400, actor=WHO, why="")
    totals.fold()
    rollup.sum_up(now=timezone.now())
    dead = Delivery.objects.filter(endpoint=failing, state="dead").order_by("-id")[0]
    return {
        "endpoint": failing.public_id, "working": working.public_id, "other": paused.public_id,
        "delivery": dead.public_id, "delivered": delivered.public_id, "test": test.public_id, "replay": done.public_id,
    }  # fmt: skip


def _endpoints(acme: Consumer, receiver: Receiver) -> tuple[Endpoint, Endpoint, Endpoint]:
    working = new_endpoint(acme, url=receiver.url, max_in_flight=100, description="The shop in Europe")
    failing = new_endpoint(
        acme, url="https://hooks.acme.example/integrations/billing/production/webhooks/receive",
        event_types=["invoice.*"], retry_schedule=[0], max_in_flight=100, rate_limit_per_second=50,
        headers={"X-Environment": "production"}, ordered=True,
    )  # fmt: skip
    paused = new_endpoint(acme, url="https://later.acme.example/hook", event_types=["invoice.paid"])
    endpoints.pause(paused)
    return working, failing, paused


def _history(acme: Consumer, working: Endpoint, failing: Endpoint) -> Delivery:
    """Some hours of traffic; then the second endpoint goes down."""
    for hour in range(6):
        accept(acme, 4 + 3 * (hour % 3), type="invoice.paid" if hour % 2 else "order.made")
        settle_all(*(answered(each, 200) for each in claim_for(working).deliveries))
        settle_all(*(_broken(hour, place, each) for place, each in enumerate(claim_for(failing).deliveries)))
        totals.fold()
        pass_time(hours=2)
    return Delivery.objects.filter(endpoint=working, state="delivered").order_by("-id")[0]


def _broken(hour: int, place: int, claimed: Claimed) -> Outcome:
    if hour < 2:
        return answered(claimed, 200)
    return unanswered(claimed) if place % 3 else answered(claimed, 503)
