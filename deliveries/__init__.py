"""Events in, deliveries out. The walk of one event stands in this folder, a step a file; each room holds what is behind
a step.

| step | file | behind it |
|---|---|---|
| accept | ingest.py | accepting/: group_commit in front of it; cache, catalogue, insert behind it |
| ring | bell.py | |
| claim | claim.py | |
| deliver | deliver.py | pump/: ready_queue, slots, listener, prepare, attempt, settler, transport, wire |
| sign | sign.py | |
| send | send.py | pump/transport.py |
| decide | retry.py | health/: breaker |
| settle | settle.py | |
| sweep | sweep.py | upkeep/: overdue, retention, announce, heartbeat |
| replay | replay.py | replaying/: fair_turns, results |

Everything that changes something for people goes through actions/, which writes the audit log. browse/ is the one
filter behind lists, counts, previews and jobs. statistics/ counts, endpoint_tests/ sends tests and check-ups, sql/ is
how statements are sent, moving/ is import and export. health/lifecycle.py is what changes to an endpoint mean for its
deliveries, browse/feed.py the catch-up feed.
Events, deliveries and attempts are in models.py, the other models in the rooms that use them; states.py names a
delivery's states.
The interfaces: api/, console/, portal/, management/; console and portal share pages/.
"""
