from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.utils import timezone

from keys.models import ClientToken
from keys.tokens import ALPHABET, FORM, digest, is_well_formed, issue_token, new_token, revoke_token


def test_ten_thousand_tokens_are_well_formed_and_differ() -> None:
    tokens = {new_token() for _ in range(10_000)}

    assert len(tokens) == 10_000
    assert all(FORM.fullmatch(token) and is_well_formed(token) for token in tokens)


def test_one_changed_character_is_noticed_anywhere() -> None:
    token = new_token()

    for place in range(len(token)):
        other = next(char for char in ALPHABET if char != token[place])
        assert not is_well_formed(token[:place] + other + token[place + 1 :])


@pytest.mark.parametrize(
    "token", ["", "brg_", "' OR 1=1--", "%", "\x00", "\ud800", "ü" * 43, "brg_" + "0" * 39, "x" * 10**6]
)
def test_what_is_no_token_is_told_without_a_look_up(token: str) -> None:
    assert not is_well_formed(token)


def test_only_the_digest_is_stored(bob: User) -> None:
    row, plain = issue_token(bob, "laptop")

    stored = ClientToken.objects.filter(pk=row.pk).values_list().get()
    assert row.digest == digest(plain)
    assert not any(plain[at : at + 12] in str(stored) for at in range(len(plain) - 11))


def test_a_token_lives_ninety_days_by_default(bob: User) -> None:
    row, _ = issue_token(bob)

    assert timedelta(days=89) < row.expires_at - timezone.now() <= timedelta(days=90)


def test_the_database_refuses_a_token_that_lives_longer_than_a_year(bob: User) -> None:
    with pytest.raises(IntegrityError, match="keys_clienttoken_expiry_bounded"):
        issue_token(bob, life=timedelta(days=400))


def test_a_token_is_revoked_once(bob: User) -> None:
    row, _ = issue_token(bob)

    assert revoke_token(row.pk)
    assert not revoke_token(row.pk)
    row.refresh_from_db()
    assert row.revoked_at is not None
