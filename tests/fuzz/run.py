"""Sends every route's requests as every role, and keeps what should not have happened.

An example is one drawn request, sent by five callers, the least powerful first. Nothing is shrunk: the server's state
moves on with each request, so a smaller one would meet another state. A violation shows the request as it was.
"""

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from django.conf import settings as django_settings
from django.db import connection
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.judge import judge, stranger_to
from tests.fuzz.requests import Drawn, Request, drawn
from tests.fuzz.wire import Answer, Wire
from tests.ledger import ledger
from tests.routes import Route, calls
from tests.tenants import Tenant, Tenants, plant

ROLES = ("none", "another consumer", "consumer", "producer", "operator")
METHODS = ("GET", "POST", "PATCH", "DELETE")
# So many characters of each part of a request and an answer.
_SHOWN = 300
_number = itertools.count()


@dataclass(frozen=True)
class Violation:
    what: str
    role: str
    request: Request
    answer: Answer | None

    def __str__(self) -> str:
        request, answer = self.request, self.answer
        said = [
            f"{request.method} {request.target[:_SHOWN]}",
            f"{request.headers}"[:_SHOWN],
            f"{request.body[:_SHOWN]!r}",
        ]
        heard = f"{answer.status} {answer.body[:_SHOWN]!r}" if answer else "nothing"
        return "\n  ".join([self.what, f"as {self.role}:", *said, f"→ {heard}"])


@dataclass
class Report:
    violations: list[Violation] = field(default_factory=list)
    # How many answers there were of each role and status.
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)

    def __str__(self) -> str:
        return "\n".join(
            f"{role}: {', '.join(f'{count} × {status}' for status, count in sorted(self._statuses(role)))}"
            for role in ROLES
        )

    def _statuses(self, role: str) -> list[tuple[int, int]]:
        return [(status, count) for (whose, status), count in self.answers.items() if whose == role]


class Fuzzer:
    """Draws, sends and judges. It alone writes to the database of the server that it talks to."""

    def __init__(self, wire: Wire) -> None:
        self.report = Report()
        self._wire = wire
        self._tenants: Tenants
        self._ledger: dict[str, tuple[int, str]]
        self._plant()

    def run(self, *, examples: int, number: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """So many examples of every route and method. The same number draws the same requests."""
        for route, method in calls(*METHODS):
            if not is_over():
                self._run_route(route, method, examples=examples, number=number, is_over=is_over)

    def _run_route(self, route: Route, method: str, *, examples: int, number: int, is_over: Callable[[], bool]) -> None:
        @seed(number)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(drawn(route, method))
        def examine(each: Drawn) -> None:
            if not is_over():
                self._examine(each)

        examine()

    def _examine(self, each: Drawn) -> None:
        """One request by every caller; then new consumers, if something of the old ones may be gone."""
        request = each.request(self._tenants)
        statuses = [self._send(request, role) for role in ROLES]
        if request.method in ("PATCH", "DELETE") and any(200 <= status < 300 for status in statuses):
            self._plant()

    def _send(self, request: Request, role: str) -> int:
        stranger = stranger_to(role, self._tenants)
        theirs = rows_of(stranger) if stranger else None
        answer = self._wire.send(request, self._tenants.keys[role])
        if answer is None:
            if len(request.body) <= django_settings.MAX_BODY_BYTES:
                self._keep("no answer", role, request, answer)
            return 0
        self.report.answers[role, answer.status] += 1
        for what in judge(request, role, answer, self._tenants):
            self._keep(what, role, request, answer)
        self._compare_ledger(request, role, answer)
        if stranger and rows_of(stranger) != theirs:
            self._keep("another consumer's rows changed", role, request, answer)
        return answer.status

    def _compare_ledger(self, request: Request, role: str, answer: Answer) -> None:
        """A refused request and a safe one write nothing."""
        now = ledger()
        if now != self._ledger and (not 200 <= answer.status < 300 or request.method in ("GET", "HEAD", "OPTIONS")):
            changed = [table for table in now if now[table] != self._ledger[table]]
            self._keep(f"{answer.status} and yet written: {', '.join(changed)}", role, request, answer)
        self._ledger = now

    def _plant(self) -> None:
        number = next(_number)
        names = {"ours": f"acme-{number}", "theirs": f"globex-{number}", "event_type": f"invoice.paid-{number}"}
        self._tenants = plant(**names, attempted=True)
        self._ledger = ledger()

    def _keep(self, what: str, role: str, request: Request, answer: Answer | None) -> None:
        self.report.violations.append(Violation(what, role, request, answer))


def rows_of(tenant: Tenant) -> list[str]:
    """The consumer's rows, but for when its keys were last used."""
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(_OWNED), {"consumer": tenant.consumer.id})
        return sorted(row for (row,) in cursor.fetchall())


_OWNED = [
    f"SELECT (to_jsonb(t) - 'last_used_at')::text FROM {table} t WHERE {column} = %(consumer)s"
    for table, column in {
        "subscriptions_consumer": "id",
        "subscriptions_endpoint": "consumer_id",
        "subscriptions_apikey": "consumer_id",
        "subscriptions_portalvisit": "consumer_id",
        "deliveries_event": "consumer_id",
        "deliveries_replay": "consumer_id",
    }.items()
]
