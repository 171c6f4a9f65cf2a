"""Who may see which usage: one rule for every list, page, feed and export.

* everything       superusers, and who has `usage.view_all_usage`
* the own teams    who has `usage.view_usagerecord`; who is in no team sees the own usage
* the own usage    everybody else
"""

from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db.models import Model, QuerySet

from keys.roles import teams_of

#: Opens the pages for staff.
VIEW = "usage.view_usagerecord"
#: Takes the limit to the own teams away.
VIEW_ALL = "usage.view_all_usage"
#: Opens the history of the pool, which names the credentials that all teams share.
VIEW_POOL = "keys.view_credential"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The usage that somebody may see. Equal scopes see the same."""

    is_everything: bool = False
    team_ids: tuple[int, ...] = ()
    user_id: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `condition` reads."""
        if self.is_everything:
            return ()
        return ("team_id",) if self.team_ids else ("user_id",)

    def condition(self) -> str:
        """Write it as SQL on a table of records or sums; it holds nothing but ids."""
        if self.is_everything:
            return "true"
        if self.team_ids:
            return f"team_id IN ({', '.join(str(int(one)) for one in self.team_ids)})"
        return "false" if self.user_id is None else f"user_id = {int(self.user_id)}"


def scope_of(user: AbstractBaseUser | AnonymousUser) -> Scope:
    """Return what `user` may see, as the database has it now."""
    if not isinstance(user, User) or not user.is_active:
        return Scope()
    if user.has_perm(VIEW_ALL):
        return Scope(is_everything=True)
    teams = sorted(teams_of(user)) if user.has_perm(VIEW) else []
    return Scope(team_ids=tuple(teams)) if teams else Scope(user_id=user.pk)


def visible_to[Row: Model](user: AbstractBaseUser | AnonymousUser, queryset: QuerySet[Row]) -> QuerySet[Row]:
    """Keep the records, or the sums, that `user` may see."""
    return within(scope_of(user), queryset)


def within[Row: Model](scope: Scope, queryset: QuerySet[Row]) -> QuerySet[Row]:
    """Keep the records, or the sums, of a scope."""
    if scope.is_everything:
        return queryset
    if scope.team_ids:
        return queryset.filter(team_id__in=scope.team_ids)
    return queryset.none() if scope.user_id is None else queryset.filter(user_id=scope.user_id)


def may_open_pages(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Tell whether the pages of usage in the admin are for `user`."""
    return isinstance(user, User) and user.is_active and user.is_staff and user.has_perm(VIEW)


def may_see_pool(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Tell whether `user` may see what happened to the credentials."""
    return isinstance(user, User) and user.has_perm(VIEW_POOL)
