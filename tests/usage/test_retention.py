from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from tests.usage.people import an_hour
from usage import retention
from usage.models import UsageDay, UsageHour

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def old_and_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PIECE", 2)
    now = timezone.now().replace(minute=0, second=0, microsecond=0)
    for days in (0, 39, 41, 42, 43, 500):
        an_hour(now - timedelta(days=days))


def test_sums_stay_unless_their_retention_is_named(old_and_new: None, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("apply_retention", "365")

    assert capsys.readouterr().out == "nothing is old enough\n"
    assert (UsageHour.objects.count(), UsageDay.objects.count()) == (6, 6)


def test_old_sums_go_in_pieces_and_younger_ones_stay(old_and_new: None, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("apply_retention", "3650", "--hours", "40", "--sums", "400")
    call_command(*words, "--dry-run")
    assert UsageHour.objects.count() == 6

    call_command(*words)

    days = ", ".join(f"1 rows of usage_{table}" for table in ("usageday", "credentialday", "crossedday"))
    told = f"4 rows of usage_usagehour, {days}\n"
    assert capsys.readouterr().out == f"would drop {told}dropped {told}"
    assert (UsageHour.objects.count(), UsageDay.objects.count()) == (2, 5)


def test_hours_that_reports_show_must_be_kept(old_and_new: None) -> None:
    with pytest.raises(CommandError, match="31 days"):
        call_command("apply_retention", "365", "--hours", "7")
