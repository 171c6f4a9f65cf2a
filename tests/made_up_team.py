"""A made-up team with some weeks of use, for pictures of the pages and for tests that walk them.

The same dice give the same team; only the moments move with the clock. What is written looks like what the gateway
writes: records, their sums, prices, budgets, and the pool's history.
"""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from io import StringIO
from typing import Any
from uuid import UUID

from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from keys.credentials import add_secrets
from keys.models import Credential, Upstream, UpstreamModel
from keys.roles import Role, give_role, make_roles
from keys.tokens import issue_token
from usage.ids import first_id_at
from usage.models import Budget, PoolChange, Price, UsageRecord
from usage.partitions import make_partitions
from usage.rollups import rolled

#: Team -> members, the one who works most first; the first of the first team leads it.
TEAMS = {"platform": ("mia", "jonas", "aylin"), "research": ("tomasz", "chen", "sofia"), "support": ("noah", "ines")}
#: Alias -> upstream, its model, and USD per million tokens of input, cache read and output.
MODELS = {
    "claude-sonnet-4-5": ("acme", "glm-5", 0.6, 0.11, 2.2),
    "claude-opus-4-5": ("north", "kimi-3", 1.2, 0.3, 5.0),
    "claude-haiku-4-5": ("acme", "qwen-4-mini", 0.15, 0.03, 0.6),
}
SHARES = (0.6, 0.15, 0.25)
KEYS = {"acme": 5, "north": 3}
CLIENTS = (("claude-cli", "2.1.324"), ("claude-cli", "2.1.332"), ("anthropic-python", "1.4.0"))
#: Usual endings: state, HTTP status, error.
FAULTS = (
    ("client_gone", 200, ""),
    ("upstream_error", 429, "rate_limit_error"),
    ("upstream_error", 503, "overloaded_error"),
    ("timeout", None, "timeout_error"),
    ("truncated", 200, "api_error"),
)
FAULT_SHARE = 0.03
#: So long ago two keys of the first upstream had a bad hour, and so many records began in it.
INCIDENT_AGO = timedelta(hours=5)
INCIDENT_RECORDS = 150
SESSION_REQUESTS = 22
#: What is noted on a model's answers: up to this percentile.
NOTES = {
    "kimi-3": (
        (6, ("tool_emulation", "tool_json_loose")),
        (8, ("tool_emulation", "tool_json_quotes", "tool_type_mended")),
        (9, ("tool_emulation", "tool_call_rejected")),
        (100, ("tool_emulation",)),
    ),
    "glm-5": ((1, ("compaction_trim",)), (2, ("tool_result_missing",))),
    "qwen-4-mini": ((3, ("media_omitted",)), (4, ("continued",))),
}
MICRO, NANO = 10**6, 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    #: When it was made up.
    now: datetime
    people: Sequence[User]
    credentials: dict[str, list[Credential]]
    prices: dict[str, Price]


def make_up(base_url: str, password: str, *, records: int = 4000, days: int = 35, seed: int = 7) -> Cast:
    """Store the whole team and what it did up to now; all upstreams are at `base_url`."""
    dice, now = random.Random(seed), timezone.now()  # noqa: S311  (repeatable, and nothing secret)
    cast = Cast(now=now, people=_make_people(password), credentials=_make_upstreams(base_url), prices=_make_prices(now))
    make_partitions(connection, now - timedelta(days=days), months_ahead=days // 28 + 2)
    UsageRecord.objects.bulk_create(_records(cast, dice, records, days), batch_size=1000)
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {rolled('usage_usagerecord')} SELECT 1")
        cursor.execute("ANALYZE")
    _make_budgets(cast)
    PoolChange.objects.bulk_create(sorted(_pool_changes(cast), key=lambda change: change.changed_at))
    return cast


def _make_people(password: str) -> list[User]:
    make_roles()
    people = []
    for team, names in TEAMS.items():
        group, _ = Group.objects.get_or_create(name=team)
        for name in names:
            user = User.objects.create_user(name, f"{name}@example.com", password)
            user.groups.add(group)
            issue_token(user, "laptop")
            people.append(user)
    give_role(people[0], Role.LEAD)
    return people


def _make_upstreams(base_url: str) -> dict[str, list[Credential]]:
    found = {}
    for name, count in KEYS.items():
        upstream = Upstream.objects.create(name=name, base_url=base_url)
        secrets = [f"sk-made-up-{name}-{number * 4391:04x}" for number in range(1, count + 1)]
        found[name] = list(add_secrets(upstream, secrets, label=name).credentials)
        models = [model for where, model, *_ in MODELS.values() if where == name]
        UpstreamModel.objects.bulk_create(
            UpstreamModel(upstream=upstream, name=model, context_window=200_000, max_output_tokens=32_000)
            for model in models
        )
    for alias, (name, model, *_) in MODELS.items():
        call_command("add_route", alias, name, model, stdout=StringIO())
    Credential.objects.filter(pk=found["acme"][-1].pk).update(draining=True)
    Credential.objects.filter(upstream__name="acme").update(rpm=120, concurrency=8)
    return found


def _make_prices(now: datetime) -> dict[str, Price]:
    start = now - timedelta(days=90)
    return {
        model: Price.objects.create(
            upstream_model=model,
            valid_from=start,
            input_price=round(input_usd * MICRO),
            cache_read_price=round(read_usd * MICRO),
            output_price=round(output_usd * MICRO),
            origin="made up",
        )
        for _, model, input_usd, read_usd, output_usd in MODELS.values()
    }


def _make_budgets(cast: Cast) -> None:
    month = cast.now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    shared: dict[str, Any] = {"period": "month", "period_start": month, "warn_percents": [80]}
    for team, share in zip(TEAMS, (0.55, 0.82, 0.2), strict=True):
        limit = 400 * NANO
        group = Group.objects.get(name=team)
        Budget.objects.create(name=f"Team {team}", subject="team", subject_id=group.pk, limit=limit,
                              spent=round(limit * share), **shared)  # fmt: skip
    for user in cast.people:
        Budget.objects.create(name=f"Tokens of {user.username}", subject="user", subject_id=user.pk, unit="tokens",
                              limit=60_000_000, spent=23_400_000, **shared)  # fmt: skip


def _records(cast: Cast, dice: random.Random, count: int, days: int) -> Iterator[UsageRecord]:
    number, now = 0, cast.now
    while number < count:
        moment, user = _moment(dice, now, days), _drawn(cast.people, dice)
        if number < INCIDENT_RECORDS:
            moment = _bad_hour(now) + timedelta(minutes=dice.uniform(0, 40))
        length = min(count - number, dice.randint(2, 2 * SESSION_REQUESTS))
        for record in _session(cast, dice, user, moment, length):
            if record.started_at < now - timedelta(minutes=1):
                number += 1
                yield record


def _moment(dice: random.Random, now: datetime, days: int) -> datetime:
    """Draw when a session began: by day, seldom at weekends, and more of late."""
    while True:
        moment = now - timedelta(days=days) * (1 - math.sqrt(dice.random()))
        wanted = (0.15 if moment.weekday() > 4 else 1) * (1 if 7 <= moment.hour < 19 else 0.35)
        if dice.random() < wanted:
            return moment


def _drawn(people: Sequence[User], dice: random.Random) -> User:
    return people[int(len(people) * dice.random() ** 1.6)]


def _session(cast: Cast, dice: random.Random, user: User, moment: datetime, length: int) -> Iterable[UsageRecord]:
    """Give the requests of an agent, and sometimes those of a sub-agent that it began."""
    team, token = user.groups.exclude(name__startswith="role: ")[0], user.client_tokens.all()[0]
    client_name, client_version = dice.choice(CLIENTS)
    shared = {
        "user_id": user.pk,
        "user_name": user.username,
        "team_id": team.pk,
        "team_name": team.name,
        "token_id": token.pk,
        "token_name": token.name,
        "client_name": client_name,
        "client_version": client_version,
        "agent_kind": "main" if client_name == "claude-cli" else "",
        "session_id": str(UUID(int=dice.getrandbits(128), version=4)),
    }
    (alias,) = dice.choices(list(MODELS), SHARES)
    yield from _conversation(cast, dice, alias, moment, length, shared)
    if length > SESSION_REQUESTS:
        begun = moment + timedelta(minutes=3)
        if client_name == "claude-cli":
            shared |= {"agent_id": f"{dice.getrandbits(64):016x}", "agent_kind": "Explore"}
        yield from _conversation(cast, dice, "claude-haiku-4-5", begun, length // 3, shared)


def _conversation(
    cast: Cast, dice: random.Random, alias: str, moment: datetime, length: int, shared: dict[str, Any]
) -> Iterable[UsageRecord]:
    """Give the requests of one agent: each reads again what went before, mostly from the cache."""
    context = dice.randint(12_000, 22_000)
    for _ in range(length):
        fresh, output = dice.randint(200, 3500), dice.randint(60, 1800)
        record = _record(cast, dice, alias, moment, (context, fresh, output))
        for name, value in shared.items():
            setattr(record, name, value)
        yield record
        context = min(context + fresh + output, 180_000)
        moment = record.settled_at + timedelta(seconds=dice.uniform(2, 90))


def _record(cast: Cast, dice: random.Random, alias: str, moment: datetime, sizes: tuple[int, int, int]) -> UsageRecord:
    upstream, model, *_ = MODELS[alias]
    credential = dice.choice(cast.credentials[upstream])
    bits = dice.getrandbits(80)
    record = UsageRecord(
        id=UUID(int=first_id_at(moment).int | 7 << 76 | 2 << 62 | (bits & ~(0xF << 76) & ~(3 << 62))),
        request_id=f"req_{bits:020x}",
        worker="made up",
        started_at=moment,
        alias=alias,
        upstream_id=credential.upstream_id,
        upstream_name=upstream,
        upstream_model=model,
        credential_id=credential.pk,
        credential_label=credential.label,
        stream=dice.random() < 0.95,
        queued_ms=round(4 * math.exp(dice.gauss(0.5, 0.8))),
        ttft_ms=round(250 * math.exp(dice.gauss(0.6, 0.5))),
    )
    answer_ms = round(sizes[2] * dice.uniform(8, 20))
    record.duration_ms = record.ttft_ms + answer_ms
    record.settled_at = moment + timedelta(milliseconds=record.duration_ms)
    if fault := _fault(dice, record, cast):
        record.state, record.http_status, record.error_type = fault
        record.ttft_ms = None
        return record
    record.notes = list(next((notes for below, notes in NOTES[model] if bits % 100 < below), ()))
    context, fresh, output = sizes
    record.state, record.source, record.http_status, record.stop_reason = "ok", "upstream", 200, "tool_use"
    record.input_tokens, record.output_tokens = fresh, output
    # A cache that went cold is read anew.
    read = context if dice.random() < 0.93 else 0
    record.cache_read_tokens = read
    record.input_tokens += context - read
    record.thinking_tokens = output // 4
    price = cast.prices[model]
    pico = record.input_tokens * price.input_price + read * (price.cache_read_price or 0) + output * price.output_price
    record.cost_nano, record.price_version = pico // 1000, price.pk
    return record


def _fault(dice: random.Random, record: UsageRecord, cast: Cast) -> tuple[str, int | None, str] | None:
    since = _bad_hour(cast.now)
    if since <= record.started_at < since + timedelta(hours=1) and record.credential_id in {
        one.pk for one in cast.credentials["acme"][1:3]
    }:
        return ("upstream_error", 503, "overloaded_error") if dice.random() < 0.8 else None
    return dice.choice(FAULTS) if dice.random() < FAULT_SHARE else None


def _bad_hour(now: datetime) -> datetime:
    return (now - INCIDENT_AGO).replace(minute=0, second=0, microsecond=0)


def _pool_changes(cast: Cast) -> Iterator[PoolChange]:
    """Give the rests of the last day: a bad hour, some rate limits, a secret that was refused."""
    now, acme, north = cast.now, cast.credentials["acme"], cast.credentials["north"]
    rests = [
        (acme[1], "ejected", "server_error", now - _bad_hour(now) - timedelta(minutes=4), 50),
        (acme[2], "ejected", "server_error", now - _bad_hour(now) - timedelta(minutes=9), 35),
        (acme[0], "cooling", "rate_limit", timedelta(hours=9), 12),
        (acme[0], "cooling", "rate_limit", timedelta(hours=7, minutes=20), 25),
        (north[1], "cooling", "overloaded", timedelta(hours=15), 40),
        (north[2], "quarantined", "wrong_key", timedelta(hours=20), 190),
    ]
    for credential, state, cause, ago, minutes in rests:
        start, end = now - ago, now - ago + timedelta(minutes=minutes)
        for state_then, cause_then, at, until in ((state, cause, start, end), ("ready", "", end, None)):
            yield PoolChange(
                upstream_id=credential.upstream_id,
                upstream_name=credential.upstream.name,
                credential_id=credential.pk,
                credential_label=credential.label,
                model_name="",
                state=state_then,
                cause=cause_then,
                until=until,
                changed_at=at,
            )
