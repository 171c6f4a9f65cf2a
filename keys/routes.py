"""Writing routes."""

from django.db import transaction
from django.db.models import Max

from keys.models import Route, RouteTarget, Upstream


@transaction.atomic
def set_target(alias: str, upstream_name: str, upstream_model: str = "") -> str:
    """Lead `alias` to an upstream model; return what changed, for the operator.

    The first upstream of an alias serves it. A call for an upstream that the alias leads to already replaces its
    model; a call for another one appends a fallback.

    Raises:
        LookupError: There is no such upstream.
        ValidationError: The alias isn't a name or a pattern, or the target is there already.
    """
    upstream = Upstream.objects.filter(name=upstream_name).first()
    if upstream is None:
        names = ", ".join(Upstream.objects.values_list("name", flat=True)[:20]) or "none yet"
        msg = f"there is no upstream {upstream_name} (there are: {names})"
        raise LookupError(msg)
    route = Route.objects.filter(alias=alias).first() or _new_route(alias)
    known = route.targets.filter(upstream=upstream).first()
    last = route.targets.aggregate(last=Max("position"))["last"]
    if known is not None and known.upstream_model != upstream_model:
        old, known.upstream_model = str(known), upstream_model
        known.full_clean()
        known.save(update_fields=["upstream_model"])
        return f"Changed {alias}: {known} instead of {old}"
    target = RouteTarget(
        route=route,
        upstream=upstream,
        upstream_model=upstream_model,
        position=0 if last is None else last + 1,
    )
    target.full_clean()
    target.save()
    return f"Added {alias} to {target}" if last is None else f"Added to {alias} a fallback: {target}"


def _new_route(alias: str) -> Route:
    route = Route(alias=alias)
    route.full_clean()
    route.save()
    return route
