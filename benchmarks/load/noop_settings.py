"""The real settings, with the no-op view beside the real addresses."""

from webhooks_platform.settings import *  # noqa: F403

ROOT_URLCONF = "benchmarks.load.noop_view"
