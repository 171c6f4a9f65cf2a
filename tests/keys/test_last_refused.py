import asyncio
from dataclasses import replace

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from bridgeproject.database import conninfo
from keys.last_refused import TOKENS_MAX, LastRefused, Refused
from keys.models import ClientToken, TokenRefusal
from keys.tokens import issue_token

pytestmark = pytest.mark.django_db(transaction=True)


def refused(**changes: object) -> Refused:
    facts: dict[str, object] = {
        "request_id": "req_1",
        "status": 403,
        "error_type": "permission_error",
        "message": "no",
        "method": "POST",
        "path": "/v1/messages",
    }
    return Refused(**facts | changes)  # type: ignore[arg-type]


@pytest.fixture
def token() -> ClientToken:
    return issue_token(User.objects.create(username="alice"))[0]


def noted(*pairs: tuple[int, Refused], dsn: str = "") -> None:
    """Let one worker note refusals and end."""

    async def work() -> None:
        worker = LastRefused(dsn or conninfo(settings.DATABASES["default"]))
        for token_id, one in pairs:
            worker.note(token_id, one)
        await worker.close()

    asyncio.run(work())


def test_the_last_of_many_is_kept(token: ClientToken) -> None:
    noted(*((token.pk, refused(request_id=f"req_{number}")) for number in range(500)))

    assert TokenRefusal.objects.get().request_id == "req_499"


def test_it_is_written_soon_but_not_on_a_requests_path(token: ClientToken) -> None:
    async def work() -> None:
        worker = LastRefused(conninfo(settings.DATABASES["default"]), every_s=0.01)
        await worker.start()
        worker.note(token.pk, refused())
        assert worker._seen
        async with asyncio.timeout(30):
            while worker._seen:  # noqa: ASYNC110  (it tells nobody)
                await asyncio.sleep(0.01)
        await worker.close()

    asyncio.run(work())
    assert TokenRefusal.objects.exists()


def test_of_two_workers_the_later_refusal_is_kept(token: ClientToken) -> None:
    late = refused(request_id="late")
    noted((token.pk, late))
    noted((token.pk, replace(late, request_id="early", at=late.at - 30)))

    assert TokenRefusal.objects.get().request_id == "late"


def test_a_token_that_is_gone_takes_nobody_along(token: ClientToken) -> None:
    noted((token.pk + 1000, refused()), (token.pk, refused()))

    assert [one.token_id for one in TokenRefusal.objects.all()] == [token.pk]


def test_what_cannot_be_stored_is_made_storable(token: ClientToken) -> None:
    noted((token.pk, refused(message="\x00\ud800\u202e" + "x" * 900, path="/v1/" + "ä" * 900)))

    kept = TokenRefusal.objects.get()
    assert kept.message.startswith("?\u202ex")
    assert (len(kept.message), len(kept.path)) == (500, 200)


def test_when_postgres_is_away_it_is_kept_for_later(token: ClientToken) -> None:
    async def work() -> None:
        worker = LastRefused("host=/nowhere dbname=none")
        worker.note(token.pk, refused())
        await worker.close()
        worker._dsn = conninfo(settings.DATABASES["default"])
        await worker.close()

    asyncio.run(work())
    assert TokenRefusal.objects.exists()


def test_memory_is_bounded() -> None:
    worker = LastRefused("")
    for number in range(TOKENS_MAX + 50):
        worker.note(number, refused())

    assert len(worker._seen) == TOKENS_MAX
