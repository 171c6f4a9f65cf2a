"""The directory against a real Postgres: what is committed is known within a second."""

from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest
from channels.db import database_sync_to_async
from django.contrib.auth.models import Group, User
from django.db.transaction import atomic
from django.utils import timezone

from keys.credentials import add_secrets
from keys.directory import Directory
from keys.entries import RouteEntry
from keys.models import ClientToken, Credential, Route, RouteTarget, Upstream, UpstreamModel
from keys.ring import key_ring
from keys.tokens import issue_token, new_token, revoke_token
from tests.usage.waiting import eventually

#: Between two polls: so long that what is known within a test's patience came by a notice.
SELDOM_S, OFTEN_S = 3600, 0.1


@pytest.fixture
def poll_s() -> float:
    return SELDOM_S


@pytest.fixture
async def directory(dsn: str, poll_s: float, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Directory]:
    monkeypatch.setattr("keys.directory.POLL_S", poll_s)
    directory = Directory(dsn, key_ring())
    await directory.start()
    yield directory
    await directory.close()


def make_upstream(name: str = "acme") -> Upstream:
    return Upstream.objects.create(name=name, base_url=f"https://{name}.example/v1")


def lead(alias: str, *targets: tuple[Upstream, str, int], enabled: bool = True) -> None:
    route = Route.objects.create(alias=alias, enabled=enabled)
    for upstream, model, position in targets:
        RouteTarget.objects.create(route=route, upstream=upstream, upstream_model=model, position=position)


def names(route: RouteEntry | None) -> tuple[list[str], list[str]]:
    assert route is not None
    return [t.model_name for t in route.targets], [t.model_name for t in route.fallbacks]


async def test_a_token_is_known_by_its_whole_text(directory: Directory) -> None:
    @database_sync_to_async
    def issue() -> str:
        bob = User.objects.create_user("bob")
        bob.groups.add(Group.objects.create(name="zebras"), Group.objects.create(name="ants"))
        return issue_token(bob, "laptop", scopes=["claude-*"])[1]

    plain = await issue()
    await eventually(lambda: directory.authenticate(plain))

    entry = directory.authenticate(plain)
    assert entry is not None
    assert (entry.user_name, entry.team_name, entry.name) == ("bob", "ants", "laptop")
    assert entry.may_use("claude-opus-4")
    assert not entry.may_use("gpt-5")
    assert directory.authenticate(new_token()) is None
    assert directory.authenticate(plain[:-1]) is None


@pytest.mark.parametrize("end", ["revoked", "deleted", "expired", "owner off", "owner gone"])
async def test_a_token_that_ended_is_unknown_within_a_second(directory: Directory, end: str) -> None:
    @database_sync_to_async
    def issue() -> tuple[ClientToken, str]:
        return issue_token(User.objects.create_user("bob"))

    @database_sync_to_async
    def finish(row: ClientToken) -> None:
        match end:
            case "revoked":
                revoke_token(row.pk)
            case "deleted":
                row.delete()
            case "expired":
                ClientToken.objects.filter(pk=row.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
            case "owner off":
                User.objects.update(is_active=False)
            case _:
                User.objects.all().delete()

    row, plain = await issue()
    await eventually(lambda: directory.authenticate(plain))
    entry = directory.authenticate(plain)
    assert entry is not None
    assert directory.current(entry.id) == entry

    await finish(row)
    await eventually(lambda: directory.authenticate(plain) is None)
    assert directory.current(entry.id) is None


async def test_the_exact_alias_wins_then_the_longest_pattern(directory: Directory) -> None:
    @database_sync_to_async
    @atomic
    def fill() -> None:
        acme = make_upstream()
        lead("*", (acme, "", 0))
        lead("claude-*", (acme, "general", 0))
        lead("claude-opus-*", (acme, "large", 0))
        lead("claude-opus-4", (acme, "exact", 0))

    await fill()
    await eventually(lambda: directory.resolve("claude-opus-4"))

    assert names(directory.resolve("claude-opus-4")) == (["exact"], [])
    assert names(directory.resolve("claude-opus-5")) == (["large"], [])
    assert names(directory.resolve("claude-haiku")) == (["general"], [])
    assert names(directory.resolve("gpt-5")) == (["gpt-5"], [])
    assert [alias.name for alias in directory.aliases()] == ["*", "claude-*", "claude-opus-*", "claude-opus-4"]


async def test_the_lowest_position_serves_and_the_next_are_fallbacks(directory: Directory) -> None:
    @database_sync_to_async
    @atomic
    def fill() -> None:
        acme, off = make_upstream(), make_upstream("off")
        Upstream.objects.filter(name="off").update(enabled=False)
        UpstreamModel.objects.create(upstream=acme, name="b", context_window=8000)
        lead("fast", (acme, "c", 7), (acme, "a", 2), (acme, "b", 2), (off, "d", 0))
        lead("nowhere", (off, "d", 0))
        lead("asleep", (acme, "a", 0), enabled=False)

    await fill()
    await eventually(lambda: directory.resolve("fast"))

    route = directory.resolve("fast")
    assert names(route) == (["a", "b"], ["c"])
    assert route is not None
    assert route.targets[0].model is None
    assert route.targets[1].model is not None
    assert route.targets[1].model.context_window == 8000
    assert directory.resolve("nowhere") is None
    assert directory.resolve("asleep") is None


async def test_credentials_come_opened_and_those_that_do_not_open_are_marked(directory: Directory) -> None:
    @database_sync_to_async
    @atomic
    def fill() -> int:
        acme = make_upstream()
        one, two, three = add_secrets(acme, ["sk-canary-one", "sk-canary-two", "sk-canary-three"]).credentials
        # Somebody copies a ciphertext from row to row.
        Credential.objects.filter(pk=two.pk).update(sealed_secret=one.sealed_secret)
        Credential.objects.filter(pk=three.pk).update(sealed_secret="")
        return acme.pk

    upstream_id = await fill()
    await eventually(lambda: len(directory.credentials(upstream_id)) == 3 and directory.undecryptable)

    await eventually(
        lambda: [c.defect for c in directory.credentials(upstream_id)] == ["", "undecryptable", "no_secret"]
    )
    good, moved, empty = directory.credentials(upstream_id)
    assert good.secret() == "sk-canary-one"
    for entry in (moved, empty):
        with pytest.raises(LookupError):
            entry.secret()
    assert "canary" not in repr(directory.credentials(upstream_id))
    assert directory.secrets() == {"sk-canary-one"}


async def test_a_changed_base_url_clears_the_secrets(directory: Directory) -> None:
    @database_sync_to_async
    @atomic
    def fill() -> int:
        acme = make_upstream()
        add_secrets(acme, ["sk-canary-one"])
        return acme.pk

    upstream_id = await fill()
    await eventually(lambda: directory.secrets())

    await database_sync_to_async(Upstream.objects.update)(base_url="https://elsewhere.example/v1")
    await eventually(lambda: not directory.secrets())
    assert directory.credentials(upstream_id)[0].defect == "no_secret"


@pytest.mark.parametrize("poll_s", [OFTEN_S])
async def test_a_lost_notice_only_delays(directory: Directory, dsn: str) -> None:
    await database_sync_to_async(make_upstream)()
    await eventually(lambda: directory.upstreams)

    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("SET session_replication_role = replica")  # no trigger, no notice
        await connection.execute("UPDATE keys_upstream SET name = 'renamed'")

    await eventually(lambda: directory.upstreams[0].name == "renamed")


async def test_a_lost_connection_is_opened_again_and_the_snapshot_stays(directory: Directory, dsn: str) -> None:
    await database_sync_to_async(make_upstream)()
    await eventually(lambda: directory.upstreams)

    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bridge bridge_keys'"
        )
        assert directory.upstreams[0].name == "acme"
        await connection.execute("UPDATE keys_upstream SET name = 'renamed'")

    await eventually(lambda: directory.upstreams[0].name == "renamed")


@pytest.fixture
async def stored_token(transactional_db: None) -> None:
    await database_sync_to_async(lambda: issue_token(User.objects.create_user("bob")))()


@pytest.mark.usefixtures("stored_token")  # before the directory, which hears of nothing that was before it
@pytest.mark.parametrize("poll_s", [OFTEN_S])
async def test_using_a_token_does_not_read_the_tables_again(directory: Directory) -> None:
    before = directory._snapshot
    assert before.tokens

    await database_sync_to_async(ClientToken.objects.update)(last_used_at=timezone.now())
    await database_sync_to_async(User.objects.update)(last_login=timezone.now())
    for _ in range(4):  # a poll that was on its way, and some that were not
        read_at = directory._read_at
        await eventually(lambda read_at=read_at: directory._read_at > read_at)

    assert directory._snapshot is before
