"""Carrying the setup from one installation to another: see `keys.setup_file` for the form."""

import base64
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models, transaction

from keys.credentials import RefusedSecret, clean_secret, set_secret, unseal_secret
from keys.models import Credential, Route, RouteTarget, Upstream, UpstreamModel
from keys.ring import key_ring
from keys.secrets import SealingError
from keys.setup_file import (
    BadSetup,
    CredentialPart,
    ModelPart,
    RoutePart,
    Setup,
    TargetPart,
    UpstreamPart,
    Vault,
    read_setup,
    write_setup,
)

UPSTREAM_FIELDS = tuple(name for name in UpstreamPart.model_fields if name not in ("models", "credentials"))
MODEL_FIELDS = tuple(ModelPart.model_fields)
CREDENTIAL_FIELDS = tuple(name for name in CredentialPart.model_fields if name != "secret")


@dataclass(slots=True)
class Imported:
    """What an import did, by kind of thing."""

    added: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)

    def note(self, kind: str, *, is_new: bool) -> None:
        (self.added if is_new else self.changed)[kind] += 1

    def __str__(self) -> str:
        kinds = dict.fromkeys([*self.added, *self.changed])
        return "; ".join(f"{kind}: {self.added[kind]} added, {self.changed[kind]} set" for kind in kinds) or "nothing"


def export_setup(passphrase: str = "") -> str:
    """Return everything as YAML; secrets only when there is a passphrase to seal them under.

    Raises:
        BadSetup: The passphrase is too short.
    """
    vault = Vault(passphrase) if passphrase else None
    upstreams = Upstream.objects.prefetch_related("models", "credentials").order_by("name")
    routes = Route.objects.prefetch_related("targets__upstream").order_by("alias")
    return write_setup(
        Setup(
            salt=base64.b64encode(vault.salt).decode() if vault else None,
            upstreams=[_upstream_part(row, vault) for row in upstreams],
            routes=[_route_part(row) for row in routes],
        )
    )


@transaction.atomic
def import_setup(text: str, passphrase: str = "") -> Imported:
    """Store what a file says, all of it or nothing; what it doesn't mention stays as it is.

    Raises:
        BadSetup: The file makes no sense here; the text says where.
    """
    setup = read_setup(text)
    vault = _vault(setup, passphrase)
    done = Imported()
    for upstream in setup.upstreams:
        _store_upstream(upstream, vault, done)
    for route in setup.routes:
        _store_route(route, done)
    return done


def _vault(setup: Setup, passphrase: str) -> Vault | None:
    if setup.salt is None:
        return None
    if not passphrase:
        msg = "the file holds secrets: it takes the passphrase that they were sealed under"
        raise BadSetup(msg)
    try:
        return Vault(passphrase, base64.b64decode(setup.salt, validate=True))
    except ValueError as exc:
        raise BadSetup(str(exc) if isinstance(exc, BadSetup) else "salt: not base64") from exc


def _upstream_part(row: Upstream, vault: Vault | None) -> UpstreamPart:
    return UpstreamPart(
        **_values(row, UPSTREAM_FIELDS),
        models=[ModelPart(**_values(model, MODEL_FIELDS)) for model in row.models.all()],
        credentials=[
            CredentialPart(**_values(credential, CREDENTIAL_FIELDS), secret=_sealed(credential, vault))
            for credential in row.credentials.all()
        ],
    )


def _sealed(credential: Credential, vault: Vault | None) -> str | None:
    if vault is None:
        return None
    try:
        return vault.seal(unseal_secret(credential, key_ring()), credential.upstream.name, credential.label)
    except SealingError:
        return None


def _route_part(row: Route) -> RoutePart:
    targets = [
        TargetPart(
            upstream=target.upstream.name, model=target.upstream_model, position=target.position, weight=target.weight
        )
        for target in row.targets.all()
    ]
    return RoutePart(alias=row.alias, enabled=row.enabled, targets=targets)


def _store_upstream(part: UpstreamPart, vault: Vault | None, done: Imported) -> None:
    row = Upstream.objects.filter(name=part.name).first() or Upstream(name=part.name)
    _store(row, part.model_dump(include=set(UPSTREAM_FIELDS)), f"upstream {part.name}", "upstreams", done)
    for model in part.models:
        known = row.models.filter(name=model.name).first() or UpstreamModel(upstream=row)
        _store(known, model.model_dump(), f"model {part.name}/{model.name}", "models", done)
    for credential in part.credentials:
        _store_credential(row, credential, vault, done)


def _store_credential(upstream: Upstream, part: CredentialPart, vault: Vault | None, done: Imported) -> None:
    row = upstream.credentials.filter(label=part.label).first() or Credential(upstream=upstream)
    where = f"credential {upstream.name}/{part.label}"
    _store(row, part.model_dump(include=set(CREDENTIAL_FIELDS)), where, "credentials", done)
    if part.secret is None:
        return
    if vault is None:
        msg = f"{where}: a secret, and no salt in the file"
        raise BadSetup(msg)
    try:
        set_secret(row, clean_secret(vault.open(part.secret, upstream.name, part.label)))
    except RefusedSecret as exc:
        msg = f"{where}: {exc}"
        raise BadSetup(msg) from exc


def _store_route(part: RoutePart, done: Imported) -> None:
    row = Route.objects.filter(alias=part.alias).first() or Route()
    _store(row, {"alias": part.alias, "enabled": part.enabled}, f"route {part.alias}", "routes", done)
    row.targets.all().delete()
    upstreams = {upstream.name: upstream for upstream in Upstream.objects.all()}
    for target in part.targets:
        if target.upstream not in upstreams:
            msg = f"route {part.alias}: there is no upstream {target.upstream}"
            raise BadSetup(msg)
        values = {"upstream": upstreams[target.upstream], "upstream_model": target.model}
        values |= {"position": target.position, "weight": target.weight}
        _store(RouteTarget(route=row), values, f"route {part.alias}", "", Imported())


def _store(row: models.Model, values: dict[str, Any], where: str, kind: str, done: Imported) -> None:
    """Set the values and save the row if it is valid."""
    is_new = row._state.adding
    for name, value in values.items():
        setattr(row, name, value)
    try:
        row.full_clean()
    except ValidationError as exc:
        msg = f"{where}: {'; '.join(exc.messages)}"
        raise BadSetup(msg) from exc
    row.save()
    done.note(kind, is_new=is_new)


def _values(row: models.Model, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}
