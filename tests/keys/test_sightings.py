import asyncio
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from bridgeproject.database import conninfo
from keys.credentials import add_secrets, set_secret
from keys.leaks import Kind, Leak
from keys.models import ClientToken, Credential, Sighting, Upstream
from keys.sightings import Sightings, dismiss, open_sightings
from keys.tokens import issue_token, revoke_token

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "sk-canary-0123456789abcdef"


@pytest.fixture
def alice() -> User:
    return User.objects.create(username="alice")


@pytest.fixture
def token(alice: User) -> ClientToken:
    return issue_token(alice)[0]


@pytest.fixture
def credential() -> Credential:
    acme = Upstream.objects.create(name="acme", base_url="https://api.acme.example/v1")
    return add_secrets(acme, [SECRET]).credentials[0]


def seen(*leaks: Leak, user: User, request_id: str = "req_1") -> None:
    """Let one worker see these secrets and end."""

    async def work() -> None:
        worker = Sightings(conninfo(settings.DATABASES["default"]))
        for leak in leaks:
            worker.note(leak, request_id=request_id, user_id=user.pk)
        await worker.close()

    asyncio.run(work())


def of_token(token: ClientToken) -> Leak:
    return Leak(Kind.TOKEN, token.pk)


def of_credential(credential: Credential) -> Leak:
    return Leak(Kind.CREDENTIAL, credential.pk, credential.last_four)


def test_a_secret_has_one_row_that_counts_and_names_the_last_request(
    alice: User, token: ClientToken, credential: Credential
) -> None:
    bob = User.objects.create(username="bob")
    seen(of_token(token), of_token(token), of_credential(credential), user=alice)
    seen(of_token(token), user=bob, request_id="req_2")

    row = Sighting.objects.get(kind="token")
    assert (row.secret_id, row.times, row.request_id, row.user) == (token.pk, 3, "req_2", bob)
    assert row.first_at < row.last_at
    assert list(open_sightings(Kind.TOKEN, [token.pk])) == [token.pk]
    assert list(open_sightings(Kind.CREDENTIAL, [credential.pk])) == [credential.pk]


def test_a_token_that_ended_needs_nobody(alice: User, token: ClientToken) -> None:
    expired, _ = issue_token(alice, life=timedelta(seconds=-1))
    revoked, _ = issue_token(alice)
    revoke_token(revoked.pk)
    seen(of_token(token), of_token(expired), of_token(revoked), Leak(Kind.TOKEN, revoked.pk + 1000), user=alice)
    assert [row.secret_id for row in Sighting.objects.all()] == [token.pk]

    ClientToken.objects.update(expires_at=timezone.now())
    assert open_sightings(Kind.TOKEN, [token.pk]) == {}


def test_a_credential_with_another_secret_starts_anew(alice: User, credential: Credential) -> None:
    before = of_credential(credential)
    seen(before, user=alice)
    set_secret(credential, "sk-canary-another-0123456789")
    assert open_sightings(Kind.CREDENTIAL, [credential.pk]) == {}

    # A worker that doesn't know yet.
    seen(before, user=alice, request_id="req_2")
    assert open_sightings(Kind.CREDENTIAL, [credential.pk]) == {}

    seen(of_credential(credential), user=alice, request_id="req_3")
    assert open_sightings(Kind.CREDENTIAL, [credential.pk])[credential.pk].request_id == "req_3"


def test_what_was_dismissed_stays_so(alice: User, token: ClientToken) -> None:
    seen(of_token(token), user=alice)
    (row,) = open_sightings(Kind.TOKEN, [token.pk]).values()
    assert dismiss(row)
    assert not dismiss(row)

    seen(of_token(token), user=alice, request_id="req_2")

    assert open_sightings(Kind.TOKEN, [token.pk]) == {}
    assert Sighting.objects.get().times == 2


def test_it_is_written_soon_but_not_on_a_requests_path(alice: User, token: ClientToken) -> None:
    async def work() -> None:
        worker = Sightings(conninfo(settings.DATABASES["default"]), every_s=0.01)
        await worker.start()
        worker.note(of_token(token), request_id="req_1", user_id=alice.pk)
        assert worker._seen
        async with asyncio.timeout(30):
            while worker._seen:  # noqa: ASYNC110  (it tells nobody)
                await asyncio.sleep(0.01)
        await worker.close()

    asyncio.run(work())
    assert Sighting.objects.exists()


def test_when_postgres_is_away_all_are_counted_later(alice: User, token: ClientToken, credential: Credential) -> None:
    async def work() -> None:
        worker = Sightings("host=/nowhere dbname=none")
        worker.note(of_token(token), request_id="req_1", user_id=alice.pk)
        worker.note(of_credential(credential), request_id="req_1", user_id=alice.pk)
        seen = dict(worker._seen)
        worker._seen = {}
        worker.note(of_token(token), request_id="req_2", user_id=alice.pk)
        worker._put_back(seen)
        await worker.close()
        worker._dsn = conninfo(settings.DATABASES["default"])
        await worker.close()

    asyncio.run(work())
    assert {(row.kind, row.times, row.request_id) for row in Sighting.objects.all()} == {
        ("token", 2, "req_2"),
        ("credential", 1, "req_1"),
    }
