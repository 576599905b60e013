"""`manage.py import_setup`: what is missing is made, what is here stays, and a broken line changes nothing else."""

import json
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import stripe
from django.db import connection, transaction
from django.utils import timezone

from deliveries.moving import importing
from deliveries.moving.reading import read_line
from subscriptions import consumers, endpoints, event_types, ids
from subscriptions.models import AuditEntry, Consumer, Endpoint, EndpointStatus, EventType, Lane
from tests.conftest import PumpRunner
from tests.integration.deliveries.moving.setup_files import OLDER, SECRET, Ran, consumer, counts, endpoint, run, write
from tests.ledger import ledger
from tests.receiver import Receiver
from tests.walk import accept

pytestmark = pytest.mark.django_db(transaction=True)

FULL = [
    {"kind": "event_type", "name": "invoice.paid", "description": "Money.", "deprecated": True,
     "versions": [{"api_version": "v1", "schema": {"type": "object"}, "example": {"amount": 1}}]},
    consumer(name="Globex", contact_email="ops@globex.example", metadata={"plan": "gold"}),
    endpoint(event_types=["invoice.*"], headers={"X-Tenant": "g-1"}, max_in_flight=3, rate_limit_per_second=7,
             timeout_seconds=5, retry_schedule=[0, 60], ordered=True, description="Main", metadata={"a": "b"}),
]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "setup.jsonl"


def test_everything_that_a_line_says_is_imported(file: Path) -> None:
    ran = run("import_setup", str(write(file, *FULL)))
    assert (ran.err, ran.failed) == ("", "")
    assert counts(ran.out) == {name: [1, 0, 0, 0, 0] for name in ("event type", "consumer", "endpoint")}
    globex, made = Consumer.objects.get(), Endpoint.objects.get()
    assert (globex.uid, globex.name, globex.contact_email, globex.metadata) == (
        "globex", "Globex", "ops@globex.example", {"plan": "gold"},
    )  # fmt: skip
    for name in ("event_types", "max_in_flight", "rate_limit_per_second", "retry_schedule", "ordered", "metadata"):
        assert getattr(made, name) == FULL[2][name]
    assert (endpoints.headers_of(made), endpoints.secrets_of(made, now=timezone.now())) == (
        {"X-Tenant": "g-1"}, (SECRET, None),
    )  # fmt: skip
    assert Lane.objects.filter(endpoint=made).count() == 1
    known = event_types.find("invoice.paid")
    assert known is not None
    assert known.deprecated_at is not None
    assert [version.example for version in known.versions.all()] == [{"amount": 1}]


def test_a_second_import_changes_nothing_and_says_so(file: Path) -> None:
    run("import_setup", str(write(file, *FULL)))
    before = ledger()
    for options in ([], ["--update"], ["--dry-run"]):
        ran = run("import_setup", str(file), *options)
        assert (ran.err, ran.failed) == ("", "")
        assert counts(ran.out) == {name: [0, 1, 0, 0, 0] for name in ("event type", "consumer", "endpoint")}
        assert ledger() == before
    assert "Nothing was changed." in run("import_setup", str(file)).out


def test_a_dry_run_says_what_the_run_does_and_writes_nothing(file: Path, settings: Any) -> None:
    settings.MAX_ENDPOINTS_PER_CONSUMER = importing.BATCH_LINES + 1
    many = [endpoint(f"e{number}") for number in range(importing.BATCH_LINES + 2)]
    write(file, *FULL[:2], *many, endpoint(consumer="nobody"), endpoint("e1"))
    before = ledger()
    dry = run("import_setup", str(file), "--dry-run")
    assert ledger() == before
    real = run("import_setup", str(file))
    assert (counts(dry.out), dry.err, dry.failed) == (counts(real.out), real.err, real.failed)
    assert Endpoint.objects.count() == importing.BATCH_LINES + 1
    assert real.err.splitlines() == [
        f"line {importing.BATCH_LINES + 4}: /consumer: It has as many endpoints as it may have"
        " (MAX_ENDPOINTS_PER_CONSUMER).",
        f"line {importing.BATCH_LINES + 5}: /consumer: There is no consumer 'nobody'. Its line stands before those of"
        " its endpoints.",
        f"line {importing.BATCH_LINES + 6}: Line 4 names the same endpoint.",
    ]


BROKEN: list[tuple[dict[str, Any] | str, str]] = [
    ("{", "The line is not valid JSON"),
    ("[]", "A line is a JSON object."),
    ('{"kind": "consumer", "uid": "a", "uid": "b"}', "The key 'uid' stands twice"),
    ({"kind": "key"}, "/kind: One of event_type, consumer, endpoint."),
    ({"kind": []}, "/kind: One of"),
    ({"kind": "consumer"}, "/uid: Say what it is called"),
    (consumer("con_1"), "/uid: Letters, digits"),
    (consumer("acme2", nmae="x"), "/nmae: There is no field `nmae`. Did you mean `name`?"),
    (consumer("acme2", why="x"), "/why: There is no field `why`."),
    (consumer("acme2", id="con_1"), "/id: No id of ours"),
    ({"kind": "event_type", "name": "a b"}, "/name: Dot-separated words"),
    ({"kind": "event_type", "name": "a", "versions": [{"api_version": "1", "schema": {"type": 7}}]},
     "/versions/0/schema"),
    (endpoint("x", url="https://10.0.0.1/"), "/url: "),
    (endpoint("x", url="ftp://globex.example/"), "/url: "),
    (endpoint("x", event_types=["a b"]), "/event_types: "),
    (endpoint("x", headers={"Host": "a"}), "/headers: Host is set by us"),
    (endpoint("x", headers={"X-A": "b\r\nHost: c"}), "/headers: The value of X-A"),
    (endpoint("x", secret="short"), "/secret: A secret has 16 to 256"),
    (endpoint("x", signature_scheme="standard"), "/secret: This scheme needs a secret of its own form"),
    (endpoint("x", previous_secret=OLDER), "/previous_secret: It comes with"),
    (endpoint("x", previous_secret=OLDER, previous_secret_expires_at="2999-01-01T00:00:00Z"),
     "/previous_secret_expires_at: At most seven"),
    (endpoint("x", status="broken"), "/status: "),
    (endpoint("x y"), "/uid: Letters, digits"),
    (endpoint("x", timeout_seconds=31), "/timeout_seconds: "),
    (endpoint("x", consumer="nobody"), "/consumer: There is no consumer 'nobody'."),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), BROKEN)
def test_a_broken_line_is_told_by_its_number_and_changes_nothing_else(
    file: Path, line: dict[str, Any] | str, said: str
) -> None:
    ran = run("import_setup", str(write(file, consumer(), "", line, endpoint())))
    assert ran.failed == "1 of 4 lines were refused."
    [told] = ran.err.splitlines()
    assert told.startswith(f"line 3: {said}")
    assert SECRET not in ran.out + ran.err
    assert (Consumer.objects.count(), Endpoint.objects.count(), EventType.objects.count()) == (1, 1, 0)


def test_a_line_that_is_too_long_is_passed_over(file: Path, settings: Any) -> None:
    settings.MAX_BODY_BYTES = 2048
    ran = run("import_setup", str(write(file, consumer(), " " * 500_000, consumer("acme"))))
    assert (ran.err.splitlines(), ran.failed) == (
        ["line 2: The line is longer than 2 KiB."], "1 of 3 lines were refused.",
    )  # fmt: skip
    assert Consumer.objects.count() == 2


def test_a_long_list_of_mistakes_is_cut_short(file: Path) -> None:
    ran = run("import_setup", str(write(file, *["{"] * 250)))
    assert (len(ran.err.splitlines()), ran.err.splitlines()[-1]) == (101, "… and 150 more.")
    assert ran.failed == "250 of 250 lines were refused."


def test_what_was_changed_here_since_is_told_and_left_alone(file: Path) -> None:
    run("import_setup", str(write(file, *FULL)))
    made = Endpoint.objects.get()
    endpoints.rotate_secret(made, overlap_seconds=0)
    endpoints.update(made, {"timeout_seconds": 9, "headers": {}})
    consumers.update(Consumer.objects.get(), {"name": "Globex Ltd"})
    before = ledger()
    ran = run("import_setup", str(file))
    assert ran.err.splitlines() == [
        "line 2: the consumer is here with other name; left as it is",
        "line 3: the endpoint is here with other timeout_seconds, headers, secret; left as it is",
    ]
    assert (ran.failed, ledger()) == ("", before)


def test_an_update_changes_everything_but_secrets(file: Path) -> None:
    run("import_setup", str(write(file, *FULL)))
    kept = endpoints.rotate_secret(Endpoint.objects.get(), overlap_seconds=0).secret
    changed = [
        {**FULL[0], "description": "Cash."},
        {**FULL[1], "name": "Globex Ltd"},
        {**FULL[2], "url": "https://globex.example/other", "headers": {"X-Tenant": "g-2"}},
    ]
    ran = run("import_setup", str(write(file, *changed)), "--update", "--why", "again")
    assert ran.err.splitlines() == ["line 3: the endpoint is here with other secret; left as it is"]
    made = Endpoint.objects.get()
    assert (made.url, endpoints.headers_of(made)) == ("https://globex.example/other", {"X-Tenant": "g-2"})
    assert endpoints.secrets_of(made, now=timezone.now())[0] == kept
    assert (Consumer.objects.get().name, EventType.objects.get().description) == ("Globex Ltd", "Cash.")
    written = AuditEntry.objects.filter(why="again").order_by("id").values_list("action", "detail")
    assert list(written) == [
        ("event_type.changed", "description"),
        ("consumer.changed", "name"),
        ("endpoint.changed", "url, headers"),
    ]


def test_what_was_deleted_here_is_not_brought_back(file: Path) -> None:
    run("import_setup", str(write(file, *FULL)))
    endpoints.delete(Endpoint.objects.get())
    ran = run("import_setup", str(file))
    assert ran.err.splitlines() == ["line 3: the endpoint was deleted here; not made again"]
    assert (ran.failed, Endpoint.objects.count()) == ("", 1)


def test_an_endpoint_without_a_secret_in_the_file_gets_one_that_nobody_sees(file: Path) -> None:
    line = endpoint()
    del line["secret"]
    ran = run("import_setup", str(write(file, consumer(), line)))
    assert "1 endpoints without a secret in the file have a new one" in ran.out
    [secret, _] = endpoints.secrets_of(Endpoint.objects.get(), now=timezone.now())
    assert secret.startswith("whsec_")
    assert secret not in ran.out + ran.err


def test_two_imported_secrets_sign_side_by_side(file: Path, receiver: Receiver, pump: PumpRunner) -> None:
    soon = (timezone.now() + timedelta(hours=1)).isoformat()
    line = endpoint(url=receiver.url, previous_secret=OLDER, previous_secret_expires_at=soon)
    assert run("import_setup", str(write(file, consumer(), line))).failed == ""
    assert counts(run("import_setup", str(file)).out)["endpoint"] == [0, 1, 0, 0, 0]
    accept(Consumer.objects.get())
    pump.run()
    [received] = receiver.received
    for secret in (SECRET, OLDER):
        stripe.WebhookSignature.verify_header(
            received.body.decode(), received.headers["webhook-signature"], secret, 300
        )


def test_an_older_secret_whose_time_is_over_is_left_out(file: Path) -> None:
    line = endpoint(previous_secret=OLDER, previous_secret_expires_at="2020-01-01T00:00:00Z")
    run("import_setup", str(write(file, consumer(), line)))
    assert Endpoint.objects.get().previous_secret_encrypted is None


def test_an_endpoint_begins_with_the_status_that_its_line_gives(file: Path) -> None:
    run("import_setup", str(write(file, consumer(), endpoint(status="paused"))))
    made = Endpoint.objects.get()
    assert (made.status, made.disabled_reason) == (EndpointStatus.PAUSED, "imported as paused")
    endpoints.resume(made)
    assert counts(run("import_setup", str(file)).out)["endpoint"] == [0, 1, 0, 0, 0]


def test_two_endpoints_with_one_url_are_two(file: Path) -> None:
    run("import_setup", str(write(file, consumer(), endpoint("a"), endpoint("b"))))
    assert Endpoint.objects.count() == 2
    assert counts(run("import_setup", str(file)).out)["endpoint"] == [0, 2, 0, 0, 0]


def test_an_id_of_another_consumers_endpoint_is_refused(file: Path, acme: Consumer) -> None:
    taken, _ = endpoints.create(consumer=acme, url="https://acme.example/")
    ran = run("import_setup", str(write(file, consumer(), {**endpoint(), "id": taken.public_id})))
    assert ran.err.splitlines() == ["line 2: /id: An endpoint of another consumer has this id."]
    assert Endpoint.objects.count() == 1


def test_an_id_that_is_here_under_another_name_is_told(file: Path) -> None:
    ours = ids.show("con", ids.new_uuid())
    run("import_setup", str(write(file, consumer(id=ours))))
    ran = run("import_setup", str(write(file, consumer("other", id=ours), endpoint())))
    assert ran.err.splitlines() == ["line 1: the consumer is here with other uid; left as it is"]
    assert (Consumer.objects.get().uid, Endpoint.objects.count()) == ("globex", 1)


def test_a_name_taken_between_look_and_write_is_found_by_its_line_alone(file: Path) -> None:
    write(file, consumer("acme"), consumer(), endpoint(), endpoint(consumer="acme"))
    told: list[Ran] = []

    def import_it() -> None:
        told.append(run("import_setup", str(file)))
        connection.close()

    importer = threading.Thread(target=import_it)
    with transaction.atomic():
        consumers.create(uid="globex")
        importer.start()
        wait_until(somebody_waits_for_a_lock)
    importer.join(30)
    assert (told[0].err, told[0].failed) == ("", "")
    assert counts(told[0].out)["consumer"] == [1, 1, 0, 0, 0]
    assert (Consumer.objects.count(), Endpoint.objects.count()) == (2, 2)


def somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    assert run("import_setup", str(tmp_path / "no")).failed.startswith("Cannot read ")


def test_nothing_of_a_line_that_a_log_may_show_holds_its_secret() -> None:
    assert SECRET not in repr(read_line(json.dumps(endpoint()).encode(), 1))
