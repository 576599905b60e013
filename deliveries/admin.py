"""The forms that are Django's own: users and roles. Everything about deliveries is in the console beside them."""

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from subscriptions.audited_forms import Audited

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(Audited, DjangoUserAdmin[User], ModelAdmin):
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm

    @transaction.atomic
    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        """In one transaction, as Django's other forms are."""
        return super().user_change_password(request, id, form_url)


@admin.register(Group)
class GroupAdmin(Audited, DjangoGroupAdmin, ModelAdmin):
    pass
