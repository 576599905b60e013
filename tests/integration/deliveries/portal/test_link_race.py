"""S15: a link opens one session, also when eight press the button at the same moment."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from subscriptions.access import portal_visits
from subscriptions.models import Consumer, PortalVisit
from subscriptions.secrets import handover
from tests.portal import link
from tests.threads import at_the_same_moment

pytestmark = pytest.mark.django_db(transaction=True)


def test_s15_each_of_twenty_links_opens_once_for_eight_who_press_together(acme: Consumer) -> None:
    opened = []
    for _ in range(20):
        path = link(acme)
        answers = at_the_same_moment(8, lambda path=path: Client().post(path))  # type: ignore[misc]
        opened.append([answer.cookies["portal_session"].value for answer in answers if answer.status_code == 302])
        assert sorted(answer.status_code for answer in answers) == [302, *[404] * 7]
    assert [len(sessions) for sessions in opened] == [1] * 20
    # The one who came in is in.
    assert [visit.consumer for [session] in opened if (visit := portal_visits.visitor(session))] == [acme] * 20


def test_s15_a_session_is_ended_once_by_eight_at_the_same_moment(acme: Consumer) -> None:
    for _ in range(5):
        token, _ = portal_visits.new_link(acme, requested_by="test", minutes=15)
        session, _ = portal_visits.open_link(token, minutes=5) or ("", None)
        ended = at_the_same_moment(8, lambda session=session: portal_visits.end_session(session))  # type: ignore[misc]
        assert sorted(ended) == [False] * 7 + [True]


def test_s15_what_is_handed_over_is_taken_once_by_eight_at_the_same_moment(acme: Consumer) -> None:
    for _ in range(5):
        token = handover.put({"secret": "hush"}, visitor="visitor:1", about="ep_1")
        taken = at_the_same_moment(8, lambda token=token: handover.take(token, visitor="visitor:1", about="ep_1"))  # type: ignore[misc]
        assert taken.count({"secret": "hush"}) == 1
        assert taken.count(None) == 7


def test_s15_the_guard_of_an_update_is_on_the_updated_row(acme: Consumer) -> None:
    """A condition on another table becomes a subquery, which is not looked at again after a wait for the row."""
    token, _ = portal_visits.new_link(acme, requested_by="test", minutes=15)
    with CaptureQueriesContext(connection) as queries:
        session, _ = portal_visits.open_link(token, minutes=5) or ("", None)
        portal_visits.end_session(session)
    updates = [query["sql"] for query in queries if query["sql"].startswith("UPDATE")]
    assert len(updates) == 2
    assert [sql for sql in updates if sql.count("SELECT")] == []
    assert PortalVisit.objects.get().opened_at is not None
