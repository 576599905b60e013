"""deliveries/browse/filter.py: a filter is declared once, and every interface offers it."""

from argparse import ArgumentParser
from dataclasses import fields
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from django.http import QueryDict

from deliveries.api.deliveries import DeliveryList, EndpointDeliveries
from deliveries.api.replays import ReplayIn
from deliveries.browse import criteria
from deliveries.browse.filter import FIELDS, Filter, known_error_kind, read_error_kind
from deliveries.management.shell import add_filters


def test_every_declared_filter_is_a_field_of_the_filter_and_of_both_api_lists_and_replays() -> None:
    declared = {each.name for each in FIELDS}
    assert declared <= {each.name for each in fields(Filter)}
    for view in (DeliveryList, EndpointDeliveries):
        assert declared <= {each.name for each in view.parameters["GET"]}
    assert declared <= set(ReplayIn().fields)


def test_console_portal_and_shell_read_what_is_declared_for_them() -> None:
    asked = criteria.read(QueryDict("event_type=a.b&reason=expired&error=503"))
    assert [(each.name, each.value) for each in asked.inputs] == [
        ("event_type", "a.b"), ("reason", "expired"), ("error", "503"),
    ]  # fmt: skip
    assert asked.filter == Filter(event_type="a.b", dead_reason="expired", error_kind="http_503")
    parser = ArgumentParser()
    add_filters(parser)
    given = parser.parse_args(["--event-type", "a.b", "--reason", "expired", "--error", "http_503"])
    assert (given.event_type, given.reason, given.error) == ("a.b", "expired", "http_503")
    assert {name for name, _ in criteria.PORTAL_FIELDS} == {"event_type", "answer"}


def test_a_filter_is_the_same_after_a_job_has_stored_it() -> None:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    wanted = Filter(
        state=None, consumer_id=uuid4(), endpoint_id=uuid4(), event_type="a.b", dead_reason="expired", since=at,
        until=at, error_kind="http_503", event_id=uuid4(), ordering_key="k", delivery_ids=(uuid4(), uuid4()),
    )  # fmt: skip
    assert Filter.read(wanted.stored()) == wanted
    assert Filter.read(Filter().stored()) == Filter()


def test_a_job_from_before_a_filter_was_added_still_reads() -> None:
    stored = Filter(event_type="a.b").stored()
    del stored["error_kind"]
    assert Filter.read(stored) == Filter(event_type="a.b")


def test_a_stored_filter_without_a_state_is_refused_because_it_would_mean_every_state() -> None:
    with pytest.raises(KeyError):
        Filter.read({"event_type": "a.b"})


def test_a_state_alone_does_not_narrow_and_each_other_field_does() -> None:
    assert not Filter(state=None).is_narrowed
    assert Filter(dead_reason="expired").is_narrowed
    assert Filter(delivery_ids=()).is_narrowed


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("503", "http_503"),
        ("503 Service Unavailable", "http_503"),
        ("http_503", "http_503"),
        ("Read timeout", "read_timeout"),
    ],
)
def test_how_an_attempt_ended_is_read_as_people_write_it(text: str, kind: str) -> None:
    assert read_error_kind(text) == kind


@pytest.mark.parametrize("text", ["500", "http_500", "Last answer: 500", "Internal Server Error", "error: 500"])
def test_an_answer_is_read_as_people_write_it(text: str) -> None:
    assert read_error_kind(text) == known_error_kind(text) == "http_500"


@pytest.mark.parametrize("text", ["", "acme", "4200", "http_999", "last answer:"])
def test_what_is_no_answer_is_known_as_none(text: str) -> None:
    assert known_error_kind(text) is None
