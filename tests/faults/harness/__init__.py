"""The fault harness: the real system, a producer, receivers, faults, and an audit of every event answered with 202.

| file | what |
|---|---|
| system.py | servers and processes that can be killed, frozen, filled and moved in time one by one |
| receiver.py | endpoints on a real socket that note every request |
| producer.py | emits with ids and Idempotency-Keys, and sends again until it is answered |
| faults.py | the catalogue: CONFORMANCE F and more, each a function of a scene |
| rounds.py | load, a fault, its end, rest; then the audit |
| audit.py | what was lost, doubled, out of order, over a cap or a schedule, left behind |
| report.py | docs/reliability.md |

`make faults` runs all of it; tests/faults/test_harness.py runs a little of it in `make test`.
"""
