"""What the pages of client tokens and credentials say of a secret that was seen in a request's text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.contrib import messages
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.decorators import action

from keys.admin.pages import object_page
from keys.leaks import Kind
from keys.models import Sighting
from keys.roles import visible_people
from keys.sightings import dismiss, open_sightings

DISMISS = (
    "From now on Bridge keeps quiet about this secret in requests, until it is replaced. Dismiss the leak only where the secret"
    " is meant to be there, and you trust the upstream with it; else rotate it."
)
#: So many are named in a list.
NAMED_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A sighting as somebody may see it."""

    sighting: Sighting
    #: Whose request it was; a lead isn't told the names of other teams.
    by: str
    #: Whether the request's page shows them anything.
    is_visible: bool


class LeakHints:
    """Goes before `ModelAdmin`: tells of leaks in the list and on the page, and lets them be dismissed."""

    leak_kind: ClassVar[Kind]
    #: What helps.
    remedy: ClassVar[str]
    list_before_template = "keys/_leaks.html"
    change_form_outer_before_template = "keys/_leak.html"
    actions_detail: Sequence[str] = ["dismiss_leak"]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        mine: QuerySet[Any] = self.get_queryset(request)  # type: ignore[attr-defined]  # of `ModelAdmin`
        seen = open_sightings(self.leak_kind, mine.order_by().values("pk"))
        leaked = list(mine.filter(pk__in=seen)[:NAMED_MAX])
        context = {"leaked": leaked, "leaked_more": len(seen) - len(leaked), **(extra_context or {})}
        answer: HttpResponse = super().changelist_view(request, context)  # type: ignore[misc]
        return answer

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row: Model | None = kwargs.get("obj")
        if row is not None:
            context |= {"leak": self._hint(request, row.pk), "remedy": self.remedy}
        answer: HttpResponse = super().render_change_form(request, context, *args, **kwargs)  # type: ignore[misc]
        return answer

    def has_leak_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        may: bool = self.has_change_permission(request)  # type: ignore[attr-defined]
        return may and (object_id is None or self._hint(request, object_id) is not None)

    @action(description="Dismiss the leak", url_path="dismiss-leak", icon="notifications_off", permissions=["leak"])  # type: ignore[untyped-decorator]
    def dismiss_leak(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row: Model | None = self.get_object(request, object_id)  # type: ignore[attr-defined]
        hint = self._hint(request, row.pk) if row else None
        if row is None or hint is None:
            raise Http404
        if request.method != "POST":
            title = f"Dismiss the leak of {row}"
            return object_page(self, request, row, "keys/form_page.html", title, form=(), intro=DISMISS, verb="Dismiss")
        if dismiss(hint.sighting):
            self.log_change(request, row, "Leak dismissed.")  # type: ignore[attr-defined]
            messages.success(request, f"Bridge tells no more of {row} in requests.")
        table = f"{row._meta.app_label}_{row._meta.model_name}"
        return HttpResponseRedirect(reverse(f"admin:{table}_change", args=[row.pk]))

    def _hint(self, request: HttpRequest, pk: Any) -> Hint | None:
        """Return what is to be told of a token or credential; None when there is nothing."""
        if not str(pk).isdecimal():
            return None
        sighting = open_sightings(self.leak_kind, [int(pk)]).get(int(pk))
        if sighting is None:
            return None
        if sighting.user is None:
            return Hint(sighting=sighting, by="somebody who is gone", is_visible=False)
        is_visible = visible_people(request.user).filter(pk=sighting.user.pk).exists()
        by = sighting.user.get_username() if is_visible else "a member of another team"
        return Hint(sighting=sighting, by=by, is_visible=is_visible)
