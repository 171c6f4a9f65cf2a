"""Who may do what.

A role is a Django group whose name begins with `role: `; every other group is a team. Everybody is a member and
sees what is their own. The roles add to that:

* lead     sees the usage, budgets and client tokens of the own team, and may revoke those tokens
* support  sees everything but secrets, and changes nothing
* admin    does everything that the admin offers

What a role may do stands in this file and not in the database, so that a new table is covered at once.
"""

from collections.abc import Iterable
from enum import StrEnum

from django.apps import apps
from django.contrib.auth.models import AbstractUser, AnonymousUser, Group, User
from django.db.models import QuerySet

from keys.models import ClientToken

ROLE_PREFIX = "role: "
#: The apps whose tables support reads and admins change; of Django's own, people and groups.
OWN_APPS = ("keys", "usage", "members")
PEOPLE = ("auth.user", "auth.group")
LEAD_PERMISSIONS = frozenset(
    {
        "keys.view_clienttoken",
        "keys.change_clienttoken",
        "usage.view_usagerecord",
        "usage.view_usagehour",
        "usage.view_usageday",
        "usage.view_budget",
    }
)
ACTIONS = ("view", "add", "change", "delete", "export")

Person = AbstractUser | AnonymousUser


class Role(StrEnum):
    LEAD = "lead"
    SUPPORT = "support"
    ADMIN = "admin"

    @property
    def group_name(self) -> str:
        return f"{ROLE_PREFIX}{self.value}"


def teams() -> QuerySet[Group]:
    """Return the groups that are teams, by name."""
    return Group.objects.exclude(name__startswith=ROLE_PREFIX).order_by("name")


def make_roles() -> None:
    """Make the groups of the roles where they are missing."""
    for role in Role:
        Group.objects.get_or_create(name=role.group_name)


def give_role(user: User, role: Role) -> None:
    """Give a role, and with it the way into the admin."""
    group, _ = Group.objects.get_or_create(name=role.group_name)
    user.groups.add(group)
    User.objects.filter(pk=user.pk).update(is_staff=True)
    user.is_staff = True
    forget_roles(user)


def roles_of(user: Person) -> frozenset[Role]:
    """Return the roles of an active user; a superuser is an admin without the group."""
    if not user.is_active or user.is_anonymous:
        return frozenset()
    return frozenset(role for role in Role if role.group_name in _groups(user).values()) | (
        {Role.ADMIN} if user.is_superuser else frozenset()
    )


def teams_of(user: Person) -> frozenset[int]:
    """Return the ids of the teams somebody belongs to."""
    return frozenset(pk for pk, name in _groups(user).items() if not name.startswith(ROLE_PREFIX))


def team_of(user: Person) -> int | None:
    """Return the team that somebody's requests count for: the first by name; None without one."""
    teams = sorted((name, pk) for pk, name in _groups(user).items() if not name.startswith(ROLE_PREFIX))
    return teams[0][1] if teams else None


def sees_all_teams(user: Person) -> bool:
    """Tell whether somebody may see what other teams do. Without a role that says so, nobody may."""
    return bool(roles_of(user) & {Role.SUPPORT, Role.ADMIN})


def permissions_of(roles: Iterable[Role]) -> frozenset[str]:
    """Return what these roles may do, in Django's words."""
    found: set[str] = set()
    for role in roles:
        match role:
            case Role.LEAD:
                found |= LEAD_PERMISSIONS
            case Role.SUPPORT:
                found |= _on_all_tables("view")
            case Role.ADMIN:
                found |= _on_all_tables(*ACTIONS)
    return frozenset(found)


def visible_tokens(user: Person) -> QuerySet[ClientToken]:
    """Return the client tokens that somebody may see: all, the team's for a lead, the own ones."""
    return ClientToken.objects.filter(user__in=visible_people(user))


def visible_people(user: Person) -> QuerySet[User]:
    """Return whose things somebody may see: everybody's, the team's for a lead, the own ones."""
    if sees_all_teams(user):
        return User.objects.all()
    if Role.LEAD in roles_of(user):
        return User.objects.filter(groups__in=teams_of(user))
    return User.objects.filter(username=user.get_username())


def forget_roles(user: Person) -> None:
    """Read the groups anew at the next question."""
    for name in ("_bridge_groups", "_perm_cache", "_group_perm_cache"):
        user.__dict__.pop(name, None)


def _groups(user: Person) -> dict[int, str]:
    """Return the groups by id, read once for each user object."""
    known: dict[int, str] | None = user.__dict__.get("_bridge_groups")
    if known is None:
        known = dict(user.groups.values_list("pk", "name")) if user.pk else {}
        user.__dict__["_bridge_groups"] = known
    return known


def _on_all_tables(*actions: str) -> set[str]:
    models = [model for app in OWN_APPS if apps.is_installed(app) for model in apps.get_app_config(app).get_models()]
    models += [apps.get_model(label) for label in PEOPLE]
    usual = {f"{model._meta.app_label}.{action}_{model._meta.model_name}" for model in models for action in actions}
    special = {f"{model._meta.app_label}.{name}" for model in models for name, _ in model._meta.permissions}
    return usual | {name for name in special if name.partition(".")[2].startswith(actions)}
