"""The outbox: events are rows of the producer's own database until the platform has them.

store.py writes them, relay.py sends them (`manage.py relay_webhooks`, or the Celery task in tasks.py), metrics.py
and admin.py show the backlog.
"""
