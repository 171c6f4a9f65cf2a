import pytest
from django.conf import settings
from django.contrib.auth.models import User

from bridgeproject.database import conninfo
from keys.last_used import LastUsed
from keys.tokens import issue_token


@pytest.mark.django_db(transaction=True)
async def test_many_uses_are_one_write_per_worker_and_round():
    user = await User.objects.acreate(username="alice")
    from asgiref.sync import sync_to_async

    used, _ = await sync_to_async(issue_token)(user, "used")
    unused, _ = await sync_to_async(issue_token)(user, "unused")
    last_used = LastUsed(conninfo(settings.DATABASES["default"]))
    await last_used.start()
    for _ in range(200):
        last_used.note(used.pk)

    await used.arefresh_from_db()
    assert used.last_used_at is None, "not on the path of a request"

    await last_used.close()

    await used.arefresh_from_db()
    await unused.arefresh_from_db()
    assert used.last_used_at is not None
    assert unused.last_used_at is None
