"""Taking over the list of models that an upstream gives."""

from dataclasses import dataclass

from django.db import transaction

from keys.models import Upstream, UpstreamModel
from keys.outside import Listed, Unanswered, outside
from keys.rows import credential_of, upstream_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """What a list changed."""

    added: list[str]
    changed: list[str]
    #: Known here and no longer listed; they stay, since routes may lead to them.
    unlisted: list[str]


def sync_models(upstream: Upstream) -> Synced:
    """Ask the upstream for its models, with the first credential that opens, and store what is new.

    Raises:
        Unanswered: No list came.
    """
    for row in upstream.credentials.filter(enabled=True).order_by("priority", "pk"):
        credential = credential_of(row)
        if not credential.defect:
            return _store(upstream, outside().list_models(upstream_of(upstream), credential))
    msg = "it has no credential to ask with"
    raise Unanswered(msg)


@transaction.atomic
def _store(upstream: Upstream, listed: list[Listed]) -> Synced:
    known = {model.name: model for model in upstream.models.select_for_update()}
    new = {model.name: model for model in listed if model.name not in known}
    UpstreamModel.objects.bulk_create(
        UpstreamModel(
            upstream=upstream,
            name=model.name,
            context_window=model.context_window,
            max_output_tokens=model.max_output_tokens,
        )
        for model in new.values()
    )
    changed = [model.name for model in listed if model.name in known and _fill(known[model.name], model)]
    unlisted = sorted(known.keys() - {model.name for model in listed})
    return Synced(added=sorted(new), changed=sorted(changed), unlisted=unlisted)


def _fill(row: UpstreamModel, listed: Listed) -> bool:
    """Fill in facts that are missing; what somebody entered stays. True when something changed."""
    missing = [
        name
        for name in ("context_window", "max_output_tokens")
        if getattr(row, name) is None and getattr(listed, name) is not None
    ]
    for name in missing:
        setattr(row, name, getattr(listed, name))
    if missing:
        row.save(update_fields=missing)
    return bool(missing)
