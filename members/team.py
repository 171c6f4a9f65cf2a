"""A team as its own people see it: all of it for who leads it, the own share for everybody else."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.contrib.auth.models import Group, User

from keys.models import ClientToken
from keys.roles import Role, roles_of, sees_all_teams, teams, teams_of
from members.figures import Figures, nothing

#: More people or tokens than these are not listed one by one.
PEOPLE_MAX = 200
TOKENS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A member's use of the span."""

    name: str
    #: False for who used something for the team and has left it, or was deleted.
    is_member: bool
    figures: Figures


def teams_for(user: User) -> list[Group]:
    """Return the teams whose page somebody may open: the own ones first, all for who sees every team."""
    own = teams_of(user)
    found = teams() if sees_all_teams(user) else teams().filter(pk__in=own)
    return sorted(found, key=lambda team: (team.pk not in own, team.name))


def sees_members(user: User, team: Group) -> bool:
    """Tell whether somebody may see what each member of a team used: its leads, and who sees every team."""
    return sees_all_teams(user) or (Role.LEAD in roles_of(user) and team.pk in teams_of(user))


def members_of(team: Group) -> dict[int, str]:
    """Return the names of a team's active members by id, in order."""
    people = team.user_set.filter(is_active=True).order_by("username")[:PEOPLE_MAX]
    return dict(people.values_list("pk", "username"))


def leads_of(team: Group) -> list[str]:
    """Name who leads a team."""
    # Two filters: the groups are two rows.
    leads = User.objects.filter(is_active=True, groups=team).filter(groups__name=Role.LEAD.group_name)
    return list(leads.order_by("username").values_list("username", flat=True)[:10])


def tokens_of(people: Mapping[int, str]) -> list[ClientToken]:
    """Return the client tokens of people that are not revoked, those that expire first before the others."""
    tokens = ClientToken.objects.filter(user__in=people, revoked_at=None).select_related("user")
    return list(tokens.order_by("expires_at", "pk")[:TOKENS_MAX])


def by_person(found: list[Figures], members: Mapping[int, str]) -> list[Person]:
    """Join sums with a team's members, the dearest first; members without any come last."""
    used = {each.label: each for each in found}
    people = [
        Person(
            name=members.get(pk) or figures.user_name or "nobody",
            is_member=pk in members,
            figures=figures,
        )
        for pk, figures in ({pk: nothing(pk) for pk in members} | used).items()
    ]
    people.sort(key=lambda person: (-person.figures.cost_nano, -person.figures.tokens, person.name))
    return people


def share_percent(own: Figures, whole: Figures) -> int | None:
    """Return somebody's share of what a team used: of the cost, else of the tokens; None where there is none."""
    part, all_of_it = (own.cost_nano, whole.cost_nano) if whole.cost_nano else (own.tokens, whole.tokens)
    return round(100 * part / all_of_it) if all_of_it else None
