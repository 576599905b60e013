"""What the web server runs: the WSGI applications before Django, and Django."""

import gc
import os
from typing import cast
from wsgiref.types import WSGIApplication

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")
django.setup(set_prefix=False)

from importlib import import_module  # noqa: E402

from django.conf import settings  # noqa: E402

from deliveries.api.answer_before_django import AnswerBeforeDjango  # noqa: E402  (needs the apps)
from deliveries.tracing.exporting import tracer  # noqa: E402  (needs the settings)
from subscriptions.limits.answer_deadline import deadline  # noqa: E402
from webhooks_platform import error_reports  # noqa: E402  (needs the settings)
from webhooks_platform.checks import refuse_nonsense  # noqa: E402  (needs the settings)
from webhooks_platform.web.admission import Admission, InSlot  # noqa: E402  (needs the settings)
from webhooks_platform.web.handler import Handler  # noqa: E402  (needs the settings)
from webhooks_platform.web.long_poll import LongPoll  # noqa: E402  (needs the settings)
from webhooks_platform.web.request_log import RequestLog  # noqa: E402  (needs the settings)

refuse_nonsense(pages=True)
# All pages now, instead of at the first request.
import_module(settings.ROOT_URLCONF)
error_reports.start()
deadline.seconds = settings.DATABASE_ANSWER_SECONDS or None
application: WSGIApplication = Admission(AnswerBeforeDjango(LongPoll(InSlot(cast(WSGIApplication, Handler())))))
if traces_go_to := tracer():
    from deliveries.tracing.requests import TracedRequests

    application = TracedRequests(application, tracer=traces_go_to)
application = RequestLog(application)

# What was loaded stays for ever, and what a request makes goes with it: the collector need not look so often. A fifth
# of an emit's CPU time was its.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 20, 50)
