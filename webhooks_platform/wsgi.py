"""The web server's door."""

import gc
import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")
application = get_wsgi_application()

from webhooks_platform.checks import refuse_nonsense  # noqa: E402  (needs the settings)

refuse_nonsense()

# What was loaded stays for ever, and what a request makes goes with it: the collector need not look so often. A fifth
# of an emit's CPU time was its.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 20, 50)
