"""The fuzzer's short run: the same few requests to every route each time. `make fuzz` runs it for longer."""

from urllib.parse import urlsplit

import pytest

from tests.fuzz.run import METHODS, ROLES, Fuzzer
from tests.fuzz.wire import Wire
from tests.routes import calls
from tests.stack import StartStack

EXAMPLES = 4


@pytest.mark.timeout(180)
def test_b_whatever_is_sent_by_whomever_breaks_nothing_and_reveals_nothing(start_stack: StartStack) -> None:
    stack = start_stack("web", API_RATE_PER_SECOND="100000")
    fuzzer = Fuzzer(Wire(urlsplit(stack.url).netloc))

    fuzzer.run(examples=EXAMPLES, number=16)

    assert fuzzer.report.violations == [], "\n\n".join(map(str, fuzzer.report.violations[:20]))
    # Guards the line above: requests came in, some of them good.
    assert sum(fuzzer.report.answers.values()) == EXAMPLES * len(calls(*METHODS)) * len(ROLES)
    successes = {role for role, status in fuzzer.report.answers if 200 <= status < 300}
    assert successes == set(ROLES) - {"none"}
