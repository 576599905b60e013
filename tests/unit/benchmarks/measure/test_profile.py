"""What the profile reads: statements by their names in the code, plans by node, samples by package. And its page."""

import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from benchmarks.capacity.fit import model
from benchmarks.load.many_receivers import hosts, make_certificate
from benchmarks.measure.plans import longest
from benchmarks.measure.python_samples import group_of, grouped
from benchmarks.measure.statements import name_of
from benchmarks.report import document, explain
from deliveries import claim, settle
from deliveries.accepting import insert


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (claim.LOCK_LANES, "claim.LOCK_LANES"),
        (claim.CLAIM_DUE, "claim.CLAIM_DUE"),
        (settle.SETTLE, "settle.SETTLE"),
        (insert.STORE_PLAIN, "insert.STORE_PLAIN"),
    ],
)
def test_a_statement_is_known_by_its_name_in_the_code(text: str, name: str) -> None:
    # As the server tells it: without the comment it begins with, and with numbers for parameters and constants.
    told = text.replace("%(endpoint_ids)s", "$1").replace("%(limit)s", "$3").replace("'off'", "$2").replace("%%", "%")
    assert name_of(told.strip()) == name


def test_a_statement_is_known_by_a_beginning_that_no_other_has() -> None:
    assert name_of(claim.CLAIM_DUE.replace("LIMIT", "FETCH")) == "claim.CLAIM_DUE"
    assert name_of(insert.STORE_ANY.replace("DISTINCT", "ALL")).startswith("WITH label AS MATERIALIZED")


def test_a_statement_nobody_named_is_shown_by_its_first_words() -> None:
    assert name_of("SELECT  1\n  FROM somewhere") == "SELECT ? FROM somewhere"


def node(kind: str, milliseconds: float, *below: dict[str, Any], **more: Any) -> dict[str, Any]:
    plain = {"Node Type": kind, "Actual Total Time": milliseconds, "Actual Rows": 4, "Actual Loops": 1, "WAL Bytes": 0}
    return plain | {"Parent Relationship": "Outer", "Plans": list(below)} | more


def logged(plan: dict[str, Any]) -> str:
    text = json.dumps({"Query Text": settle.SETTLE, "Plan": plan}, indent=2)
    lines = "".join(f"\t{line}\n" for line in text.splitlines())
    return f"2026-01-01 LOG:  duration: {plan['Actual Total Time']:.3f} ms  plan:\n{lines}2026-01-01 LOG:  other\n"


def test_the_longest_plan_of_a_statement_is_read_from_the_log() -> None:
    short, long = node("Seq Scan", 1.0), node("Seq Scan", 3.0, **{"Relation Name": "t"})
    assert longest(logged(long) + logged(short)) == {
        "settle.SETTLE": [{"node": "Seq Scan t", "rows": 4, "ms": 3.0, "buffers": 0, "wal_bytes": 0}]
    }


def test_a_node_shows_what_it_did_itself() -> None:
    value = node("LockRows", 2.0, **{"Parent Relationship": "InitPlan", "Subplan Name": "InitPlan 1"})
    # The scan asked for the value, so its own three milliseconds are five on paper.
    scan = node("Index Scan", 5.0, **{"Index Name": "i"})
    write = node("ModifyTable", 9.0, value, scan, **{"Operation": "Update", "Relation Name": "t", "WAL Bytes": 70})
    [(_, nodes)] = longest(logged(write)).items()
    assert [(one["node"], one["ms"], one["wal_bytes"]) for one in nodes] == [
        ("Update t", 4.0, 70), ("Index Scan i", 3.0, 0), ("LockRows", 2.0, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("frame", "group"),
    [
        ("settle (deliveries/settle.py:120)", "deliveries/settle.py"),
        ("_answer (deliveries/api/emit.py:80)", "deliveries/api/emit.py"),
        ("feed (aiohttp/client_proto.py:5)", "aiohttp"),
        ("run (asyncio/runners.py:118)", "python"),
        ("wait (threading.py:320)", "python"),
        ("<module> (<string>:1)", "python"),
    ],
)
def test_own_time_belongs_to_a_package_and_ours_to_a_file(frame: str, group: str) -> None:
    assert group_of(frame) == group


def test_only_the_innermost_frame_counts() -> None:
    stacks = "run (asyncio/runners.py:1);sign (deliveries/sign.py:9) 3\nrun (asyncio/runners.py:1) 1\n"
    assert grouped(stacks) == {"deliveries/sign.py": 0.75, "python": 0.25}


def test_the_certificate_is_trusted_by_who_reads_it_and_names_every_origin(tmp_path: Path) -> None:
    pem = make_certificate(tmp_path, hosts())
    trusting = ssl.create_default_context(cafile=str(pem))
    [certificate] = trusting.get_ca_certs()
    names = certificate["subjectAltName"]
    assert isinstance(names, tuple)
    assert {name for _, name in names} == set(hosts())


def side(cpu: float, *, statements: float, **more: Any) -> dict[str, Any]:
    texts = ("insert.STORE_PLAIN", "claim.CLAIM_DUE", "settle.SETTLE")
    shown = {"calls": 10, "rows": 100, "mean_ms": 1.0, "share": 0.33, "wal_bytes_per_call": 500}
    return {
        "cpu_ms": dict.fromkeys(("web", "worker", "postgres", "redis"), cpu), "wal_bytes": 1500.0, "flush_ms": 1.0,
        "stores": statements, "claims": statements, "settlements": statements,
        "statements": [{"name": name, **shown} for name in texts], **more,
    }  # fmt: skip


@pytest.fixture
def results() -> dict[str, Any]:
    """The committed figures, with a profile one can reckon with."""
    found: dict[str, Any] = json.loads(document.RESULTS.read_text())
    arrival = {"p50_ms": 20.0, "p95_ms": 40.0, "p99_ms": 60.0}
    kinds = ("one_origin", "many_origins", "new_connections")
    found["measures"]["profile"] = {
        "deliver": side(0.3, statements=0.01), "emit": dict.fromkeys(("single", "batch"), side(0.3, statements=0.1)),
        "lone": side(3.0, statements=1.0, rate=20), "more": side(1.0, statements=0.3, rate=400),
        "some": side(2.0, statements=0.9, rate=100, arrival=arrival),
        "plans": {"settle.SETTLE": [{"node": "Update t", "rows": 4, "ms": 3.0, "buffers": 10, "wal_bytes": 70}]},
        "python": {"worker": {"aiohttp": 0.4, "python": 0.01}, "web": {}},
        "receivers": {f"{scheme}_{kind}": {"cpu_ms": 0.25} for scheme in ("http", "https") for kind in kinds},
        "waits": {
            "bell_gather": 0.005, "pump_gather": 0.02, "settle_gather": 0.05, "passed_over": 0.005, "slots": 400,
        },
    }  # fmt: skip
    return found


def test_a_profile_is_shown_in_full(results: dict[str, Any]) -> None:
    page = explain.profile(results)
    assert "| PostgreSQL, ms of CPU | 3.00 | 2.00 | 1.00 | 0.60 |" in page
    assert "| a drain | `settle.SETTLE` | 10 | 10 | 1.00 | 33% | 500 |" in page
    assert "| `settle.SETTLE` | Update t | 4 | 3.00 | 10 | 70 |" in page
    assert "| worker | aiohttp 40% |" in page
    assert "| one host, connections kept | 0.25 | 0.25 |" in page


def test_what_needs_a_profile_says_so_where_there_is_none(results: dict[str, Any]) -> None:
    del results["measures"]["profile"]
    assert explain.profile(results) == explain.checked(results) == explain.NO_PROFILE
    assert "| 1,000/s, emitted one by one |" in explain.capacities(results)


def test_the_plans_show_a_latency_only_where_the_simulation_may_speak_of_it(results: dict[str, Any]) -> None:
    for one in results["measures"]["through"].values():
        one["arrival"]["p95_ms"]["median"] = 10_000.0
    assert "p50, p95" not in explain.capacities(results)
    said = explain.checked(results)
    assert "| through at 50/s, p95 | 10,000.0 ms | " in said
    assert "Off by more than a factor of 1.5: " in said
    assert "through at 50/s, p95, through at 200/s, p95" in said.replace("through at 200/s, p50, ", "")


def test_the_model_takes_its_waits_from_the_code_that_was_measured(results: dict[str, Any]) -> None:
    found = model(results["measures"])
    assert (found.waits.bell_gather, found.waits.pump_gather, found.waits.flush) == (0.005, 0.02, 0.001)
    assert found.slots == 400
