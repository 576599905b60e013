"""Django's admin with the operators' console in it: named in INSTALLED_APPS in place of `django.contrib.admin`."""

from django.contrib.admin.apps import SimpleAdminConfig


class ConsoleConfig(SimpleAdminConfig):
    """Looks for no pages when a process starts: workers have none. The web server's come with its addresses."""

    default_site = "deliveries.console.site.ConsoleSite"
