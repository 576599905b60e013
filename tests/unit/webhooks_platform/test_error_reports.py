"""webhooks_platform/error_reports.py: what Sentry is told, by a real report to a receiver in its place."""

import gzip
import logging
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import sentry_sdk
from pytest_django import Settings

from subscriptions.process import request_id
from tests.receiver import Receiver, running_receiver
from webhooks_platform import error_reports

logger = logging.getLogger("deliveries.test")
SECRET = "whsec_" + "S" * 40


@pytest.fixture
def sentry(settings: Settings) -> Iterator[Receiver]:
    with running_receiver() as receiver:
        settings.SENTRY_DSN = receiver.url.removesuffix("/hook").replace("://", "://public@") + "/1"
        error_reports.start()
        yield receiver
        sentry_sdk.get_client().close()
        sentry_sdk.get_global_scope().set_client(None)


def reported(receiver: Receiver) -> tuple[dict[str, Any], str]:
    """The report, and everything that was sent as text."""
    sentry_sdk.flush()
    [received] = receiver.wait_for(1)
    body = gzip.decompress(received.body) if received.headers.get("Content-Encoding") == "gzip" else received.body
    return orjson.loads(body.splitlines()[2]), body.decode()


def fail(payload: dict[str, Any]) -> None:
    raise ValueError(f"Failing row contains ({payload}).\nDETAIL: {SECRET}")


def test_an_error_is_reported_with_its_place_and_its_fields_and_nothing_of_what_it_said(sentry: Receiver) -> None:
    _, token = request_id.begin("request-1")
    try:
        fail({"amount": "a-payload"})
    except ValueError:
        logger.exception("delivery.broken", extra={"fields": {"delivery": "dlv_1", "error": "ValueError('a-payload')"}})
    finally:
        request_id.end(token)

    report, sent = reported(sentry)
    [exception] = report["exception"]["values"]
    assert (report["message"], report["level"], report["tags"]) == (
        "delivery.broken", "error", {"request_id": "request-1"},
    )  # fmt: skip
    assert report["extra"] == {"delivery": "dlv_1", "error": "ValueError"}
    assert (exception["type"], exception["stacktrace"]["frames"][-1]["function"]) == ("ValueError", "fail")
    assert not [word for word in ("a-payload", SECRET, "Failing row", "hostname", 'server_name": "v') if word in sent]


def test_a_secret_in_a_message_is_cut_out(sentry: Receiver) -> None:
    logger.error("it broke with %s", SECRET)

    report, sent = reported(sentry)
    assert SECRET not in sent
    assert report["message"] == "it broke with %s"


def test_warnings_are_not_reported(sentry: Receiver) -> None:
    logger.warning("lease.ran_out")
    sentry_sdk.flush()

    assert sentry.received == []


def test_without_a_setting_nothing_is_started(settings: Settings) -> None:
    settings.SENTRY_DSN = ""
    error_reports.start()

    assert not sentry_sdk.get_client().is_active()
