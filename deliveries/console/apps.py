"""Django's admin with the operators' console in it: named in INSTALLED_APPS in place of `django.contrib.admin`."""

from django.contrib.admin.apps import AdminConfig


class ConsoleConfig(AdminConfig):
    default_site = "deliveries.console.site.ConsoleSite"
