from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import site
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import ReadOnlyPasswordHashWidget
from django.contrib.auth.hashers import is_password_usable
from django.contrib.auth.models import Group, User
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from keys.admin.pages import numbers
from keys.editing import WarnsOfOthers
from keys.roles import ROLE_PREFIX, Role, forget_roles, roles_of
from keys.searching import SearchInTime
from members.second_factor import remove_second_factor

STATE = '<p>{} <a class="text-primary-700 dark:text-primary-400 underline" href="{}">Set another</a></p>'
GROUPS = (
    "A team shares budgets and reports. A role is for who needs more: a lead sees the own team, support sees"
    " everything, an admin changes everything."
)

site.unregister(User)
site.unregister(Group)
# Their pages would show the secret of a second factor; removing one is an action on the user.
site.unregister(TOTPDevice)
site.unregister(StaticDevice)
# Those of single sign-on would show its secrets, and be another way to link accounts.
for model in [model for model in site._registry if model._meta.app_label in ("account", "socialaccount")]:
    site.unregister(model)


class PasswordState(ReadOnlyPasswordHashWidget):
    """Whether there is a password, and where to set one; nothing of its hash."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        state = "There is one." if value and is_password_usable(value) else "There is none: the user can't log in."
        return format_html(STATE, state, "../password/")


class UserForm(UserChangeForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password"].widget = PasswordState()


class UserAddForm(UserCreationForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["usable_password"].label = "Password login"
        self.fields["usable_password"].help_text = "Disabled for who comes by single sign-on alone."


@admin.register(User)
class UserAdmin(WarnsOfOthers, SearchInTime, DjangoUserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]  # unfold has no types
    form = UserForm
    add_form = UserAddForm
    change_password_form = AdminPasswordChangeForm
    list_display = ["username", "email", "teams", "roles", "is_active", "last_login"]
    list_filter = ["is_active", "is_staff", "groups"]
    search_help_text = "A name or an email address"
    readonly_fields = ["last_login", "date_joined"]
    # Django's two boxes side by side are wider than a phone.
    filter_horizontal = []
    autocomplete_fields = ["groups"]
    actions = ["reset_second_factor"]
    fieldsets = (
        (None, {"fields": ("username", "password", "groups", "is_active")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        (
            "Rights beyond a role",
            {"fields": ("is_staff", "is_superuser", "user_permissions"), "classes": ("collapse",)},
        ),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = ((None, {"fields": ("username", "usable_password", "password1", "password2", "groups", "email")}),)

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        queryset: QuerySet[User] = super().get_queryset(request).prefetch_related("groups")
        return queryset

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Leave the password out for whoever may only look: Django would show its whole hash as a plain value."""
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or self.has_change_permission(request, obj):
            return fieldsets
        return [
            (title, {**options, "fields": [name for name in options["fields"] if name != "password"]})
            for title, options in fieldsets
        ]

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "groups":
            kwargs |= {"label": "Teams and roles", "help_text": GROUPS}
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> list[str]:
        # Nobody makes superusers but superusers.
        return [*self.readonly_fields, *([] if request.user.is_superuser else ["is_superuser"])]

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return bool(super().has_change_permission(request, obj)) and _is_within_reach(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return bool(super().has_delete_permission(request, obj)) and _is_within_reach(request, obj)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Open the admin to whoever got a role."""
        super().save_related(request, form, formsets, change)
        user = form.instance
        forget_roles(user)
        if roles_of(user) and not user.is_staff:
            User.objects.filter(pk=user.pk).update(is_staff=True)
            self.message_user(request, f"{user} has a role now, and with it the way into the admin.", messages.INFO)

    @admin.display(description="team")
    def teams(self, user: User) -> str:
        names = [group.name for group in user.groups.all()]
        return ", ".join(sorted(name for name in names if not name.startswith(ROLE_PREFIX))) or "-"

    @admin.display(description="role")
    def roles(self, user: User) -> str:
        names = [group.name for group in user.groups.all()]
        roles = sorted(name.removeprefix(ROLE_PREFIX) for name in names if name.startswith(ROLE_PREFIX))
        return "superuser" if user.is_superuser else ", ".join(roles) or "member"

    @admin.action(description="Remove the second factor (lost phone)", permissions=["change"])
    def reset_second_factor(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        users = [user for user in queryset if _is_within_reach(request, user)]
        removed = [user for user in users if remove_second_factor(user)]
        for user in removed:
            self.log_change(request, user, "Second factor removed.")
        self.message_user(request, f"{len(removed)} removed.", messages.SUCCESS)


@admin.register(Group)
class GroupAdmin(WarnsOfOthers, SearchInTime, DjangoGroupAdmin, ModelAdmin):  # type: ignore[misc]
    list_display = ["name", "kind", numbers("people", "people")]
    search_help_text = "A team's or a role's name"
    filter_horizontal = []

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        queryset: QuerySet[Any] = super().get_queryset(request).annotate(people=Count("user"))
        return queryset

    def get_fields(self, request: HttpRequest, obj: Group | None = None) -> Any:
        # What a role may do stands in the code; a team is only a name.
        return ["name", "kind"] if obj else ["name"]

    def get_readonly_fields(self, request: HttpRequest, obj: Group | None = None) -> list[str]:
        return ["kind", "name"] if obj and _is_role(obj) else ["kind"]

    def has_delete_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return bool(super().has_delete_permission(request, obj)) and not (obj and _is_role(obj))

    @display(description="kind", label={"role": "info", "team": "success"})  # type: ignore[untyped-decorator]
    def kind(self, group: Group) -> str:
        return "role" if _is_role(group) else "team"


def _is_role(group: Group) -> bool:
    return group.name in {role.group_name for role in Role}


def _is_within_reach(request: HttpRequest, user: User | None) -> bool:
    """Tell whether an admin may change this account: those of superusers are for superusers."""
    return user is None or not user.is_superuser or bool(request.user.is_superuser)
