"""Django's backend for PostgreSQL, on connections with a deadline (subscriptions/limits/answer_deadline.py)."""
