"""The web server's door."""

import gc
import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhooks_platform.settings")
application = get_wsgi_application()

from webhooks_platform.checks import refuse_nonsense  # noqa: E402  (needs the settings)

refuse_nonsense()

# What was loaded stays for ever: the collector need not look at it again and again.
gc.collect()
gc.freeze()
