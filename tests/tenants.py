"""Two consumers with one of everything, and a key for every role: what tests of all routes put into paths and look for.

Everything that belongs to one of them holds a mark, so that it is recognised in an answer to somebody else.
"""

from dataclasses import dataclass, field

from django.conf import settings

from deliveries import replay
from deliveries.browse.filter import Filter
from deliveries.endpoint_tests import check_up
from deliveries.models import Delivery
from subscriptions import consumers, endpoints, event_types, keys
from subscriptions.access import portal_visits
from subscriptions.models import Consumer, Role, SignatureProfile
from subscriptions.signing import schemes
from tests.walk import accept, answered, answering, claim_for, settle_all


@dataclass(frozen=True)
class Tenant:
    consumer: Consumer
    key: str
    # By the names that paths have for them: `consumer`, `endpoint`, `event`, …
    things: dict[str, str]
    # Names, ids and addresses that nobody else's answers may hold.
    marks: frozenset[str]
    # What nobody's answers may hold, its own included.
    secrets: frozenset[str]


@dataclass(frozen=True)
class Tenants:
    ours: Tenant
    theirs: Tenant
    keys: dict[str, str | None] = field(repr=False)


def plant(
    *, ours: str = "acme", theirs: str = "globex", event_type: str = "invoice.paid", attempted: bool = False
) -> Tenants:
    """`attempted`: each delivery was tried once and answered 500. That takes rows which other connections see."""
    event_types.create(name=event_type)
    if not SignatureProfile.objects.filter(name="own-way").exists():
        schemes.create(name="own-way", signed="{body}")
    one, other = (tenant(uid, event_type=event_type, attempted=attempted) for uid in (ours, theirs))
    given = {
        "none": None,
        "producer": keys.issue(role=Role.PRODUCER)[1],
        "operator": keys.issue(role=Role.OPERATOR)[1],
        "consumer": one.key,
        "another consumer": other.key,
    }
    return Tenants(one, other, given)


def tenant(uid: str, *, event_type: str, attempted: bool) -> Tenant:
    mark = f"mark-of-{uid}"
    consumer = consumers.create(
        uid=uid, name=f"{mark} Inc", contact_email=f"{mark}@example.com", metadata={"mark": mark}
    )
    endpoint, signing_secret = endpoints.create(
        consumer=consumer,
        url=f"http://127.0.0.1:9/{mark}",
        description=mark,
        metadata={"mark": mark},
        headers={f"X-{mark}": f"value-{mark}"},
    )
    [event] = accept(consumer, type=event_type, ordering_key=mark)
    if attempted:
        settle_all(*(answered(delivery, 500, x_mark=mark) for delivery in claim_for(endpoint).deliveries))
    check_up.run(endpoint, transport=answering())
    key, secret = keys.issue(role=Role.CONSUMER, consumer=consumer, name=mark)
    job = replay.start(Filter(consumer_id=consumer.id), consumer=consumer, rate_per_second=None, requested_by=mark)
    link, _ = portal_visits.new_link(consumer, requested_by=mark, minutes=settings.PORTAL_LINK_MINUTES)
    things = {
        "consumer": uid,
        "endpoint": endpoint.public_id,
        "event": event.public_id,
        "delivery": Delivery.objects.get(endpoint=endpoint).public_id,
        "key": key.public_id,
        "replay": job.public_id,
        "name": event_type,
        "profile": "own-way",
    }
    own = {value for name, value in things.items() if name not in ("name", "profile")}
    secrets = {signing_secret, secret, link, f"value-{mark}"}
    return Tenant(consumer, secret, things, frozenset({*own, consumer.public_id, mark}), frozenset(secrets))
