import asyncio
import base64
import time
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from channels.db import database_sync_to_async
from django.core.management import CommandError, call_command
from django.db import connection

from keys.credentials import add_secrets, defect_of, unseal_secret
from keys.directory import Directory
from keys.dispatch import Dispatcher
from keys.models import Credential, Route, Upstream
from keys.ring import ADVISORY_LOCK, key_ring
from keys.secrets import KeyRing, sealed_under
from keys.snapshot import secret_place
from tests.keys.pools import OK

SECRETS = [f"sk-rotating-{number:04}" for number in range(20)]


@pytest.fixture
def ring_file(tmp_path: Path, settings) -> Path:
    path = tmp_path / "encryption_keys"
    path.write_text(f"k1:{base64.b64encode(b'1' * 32).decode()}\n")
    settings.ENCRYPTION_KEYS_FILE = path
    return path


def fill() -> Upstream:
    upstream = Upstream.objects.create(name="acme", base_url="https://acme.example/v1")
    add_secrets(upstream, SECRETS)
    return upstream


def run(*words: str) -> str:
    out = StringIO()
    call_command("rotate_encryption_key", *words, stdout=out)
    return out.getvalue().strip()


def ids_in_use() -> set[str]:
    return {sealed_under(sealed) for sealed in Credential.objects.values_list("sealed_secret", flat=True)}


def test_all_secrets_are_sealed_under_the_new_key_and_the_old_one_can_go(db, ring_file: Path) -> None:
    fill()

    assert run("--new") == "Sealed 20 secrets anew under k2; no other key is in use"
    assert ids_in_use() == {"k2"}
    assert run() == "Sealed 0 secrets anew under k2; no other key is in use"
    assert set(key_ring().keys) == {"k1", "k2"}
    assert run("--forget-old") == "Dropped from the ring: k1"
    assert set(key_ring().keys) == {"k2"}
    assert [unseal_secret(row, key_ring()) for row in Credential.objects.order_by("pk")] == SECRETS
    assert ring_file.stat().st_mode & 0o077 == 0


def test_an_interrupted_rotation_goes_on_where_it_stopped(db, ring_file: Path) -> None:
    fill()
    run("--new")
    first = Credential.objects.order_by("pk")[:5]
    old = KeyRing(in_use="k1", keys=key_ring().keys)
    for row in first:
        sealed = old.seal(unseal_secret(row, old), secret_place(row.pk))
        Credential.objects.filter(pk=row.pk).update(sealed_secret=sealed)

    assert run() == "Sealed 5 secrets anew under k2; no other key is in use"


def test_an_old_key_that_is_needed_stays(db, ring_file: Path) -> None:
    fill()
    fresh = base64.b64encode(b"2" * 32).decode()
    ring_file.write_text(f"k2:{fresh},{ring_file.read_text()}")

    with pytest.raises(CommandError, match="20 secrets are not sealed under k2"):
        run("--forget-old")

    assert set(key_ring().keys) == {"k1", "k2"}


def test_what_does_not_open_is_named_and_left_as_it_is(db, ring_file: Path) -> None:
    fill()
    row = Credential.objects.order_by("pk")[3]
    Credential.objects.filter(pk=row.pk).update(sealed_secret="v1.gone.AAAA")

    with pytest.raises(CommandError, match="sealed 19 anew; no key of the ring opens: key-4"):
        run("--new")

    row.refresh_from_db()
    assert row.sealed_secret == "v1.gone.AAAA"
    assert defect_of(row, key_ring()) == "undecryptable"


def test_a_ring_in_the_environment_is_not_ours_to_write(db, settings) -> None:
    settings.ENCRYPTION_KEYS_FILE = None

    with pytest.raises(CommandError, match="BRIDGE_ENCRYPTION_KEYS"):
        run("--new")


def test_only_one_rotation_runs_at_a_time(dsn: str, ring_file: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [ADVISORY_LOCK])
        with pytest.raises(CommandError, match="another rotation"):
            run()
        other.execute("SELECT pg_advisory_unlock(%s)", [ADVISORY_LOCK])
    assert run().startswith("Sealed 0")
    connection.close()


async def test_nothing_fails_while_the_key_is_rotated(dsn: str, ring_file: Path) -> None:
    @database_sync_to_async
    def prepare() -> None:
        Route.objects.create(alias="m").targets.create(upstream=fill())

    await prepare()
    directory = Directory(dsn, key_ring())
    await directory.start()
    dispatcher = Dispatcher("", directory, "one")
    route = directory.resolve("m")
    assert route is not None
    used: list[str] = []
    seen: set[int] = set()
    is_over = False

    async def watch() -> None:
        while not is_over:
            seen.add(directory.undecryptable)
            await asyncio.sleep(0)

    async def stream() -> None:
        while not is_over:
            attempts = dispatcher.attempts(route)
            claim = dispatcher.claim(next(attempts))
            attempts.close()
            await asyncio.sleep(0.005)
            used.append(claim.attempt.credential.secret())
            claim.release(OK)

    streams = [asyncio.create_task(stream()) for _ in range(20)] + [asyncio.create_task(watch())]
    line = await database_sync_to_async(run)("--new")
    await asyncio.sleep(0.5)
    is_over = True
    await asyncio.gather(*streams)

    assert line.startswith("Sealed 20 secrets")
    assert set(used) == set(SECRETS)
    assert seen == {0}
    until = time.monotonic() + 30
    while directory.undecryptable or "k2" not in directory.credentials(route.targets[0].upstream.id)[0].sealed_in:
        assert time.monotonic() < until, "the worker did not learn the new key"
        await asyncio.sleep(0.01)
    assert await database_sync_to_async(ids_in_use)() == {"k2"}
    await directory.close()
