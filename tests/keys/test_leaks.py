import pytest

from keys.entries import CredentialEntry
from keys.leaks import AT_ONCE, SECRET_CHARS_MIN, Kind, Leak, Watch, tokens_in
from keys.tokens import new_token

#: All that a header can carry.
EVERY_CHARACTER = "".join(chr(code) for code in range(ord("!"), ord("~") + 1))


def credential(number: int, secret: str) -> CredentialEntry:
    return CredentialEntry(
        id=number,
        upstream_id=1,
        label=f"key-{number}",
        last_four=secret[-4:],
        enabled=True,
        draining=False,
        priority=0,
        weight=1,
        rpm=None,
        tpm=None,
        concurrency=None,
        opened=secret,
    )


def found(text: str, *secrets: str) -> list[int]:
    """Search for these secrets, numbered from 1."""
    watch = Watch(credential(number, secret) for number, secret in enumerate(secrets, start=1))
    return [leak.id for leak in watch.credentials_in(text.encode())]


def test_a_token_is_found_wherever_it_stands() -> None:
    one, two = new_token(), new_token()

    assert tokens_in(f'{{"a": "export X={one}\\n", "ä": "x{two}x"}}'.encode()) == {one, two}


def test_what_only_looks_like_a_token_is_none() -> None:
    token = new_token()
    wrong_sum = token[:-1] + ("a" if token[-1] != "a" else "b")

    for text in (
        wrong_sum,
        token[:-1],
        f'{token[:20]}","{token[20:]}',
        "brg_",
        "brg_" + "x" * 39,
        "\xff" + token.upper(),
    ):
        assert tokens_in(text.encode()) == set()


def test_a_credential_is_found_by_its_whole_secret() -> None:
    secret = "sk-proj-0123456789abcdef"

    assert found(f'"key: {secret}"', "sk-other-0123456789abcdef", secret) == [2]
    assert found(f"{secret[:-1]} {secret[1:]} {secret.upper()} {secret[:10]} {secret[10:]}", secret) == []


def test_of_many_credentials_each_is_found() -> None:
    secrets = [f"sk-{number:020}" for number in range(2 * AT_ONCE + 3)]

    for place in (0, AT_ONCE - 1, AT_ONCE, len(secrets) - 1):
        assert found(f"a {secrets[place]} b", *secrets) == [place + 1]
    assert found(" ".join(secrets), *secrets) == list(range(1, len(secrets) + 1))


def test_secrets_that_begin_alike_are_told_apart() -> None:
    beginning = "eyJhbGciOi" * 10

    assert found(f"{beginning}.one", f"{beginning}.one", f"{beginning}.two") == [1]


def test_every_character_of_a_secret_means_itself() -> None:
    assert found(f"x{EVERY_CHARACTER}x", EVERY_CHARACTER, EVERY_CHARACTER[::-1], "." * SECRET_CHARS_MIN) == [1]


@pytest.mark.parametrize("secret", ["ollama", "sk-no-key-required", "x" * (SECRET_CHARS_MIN - 1)])
def test_placeholders_are_not_searched_for(secret: str) -> None:
    assert found(f"the key is {secret}", secret) == []


def test_a_secret_that_two_credentials_share_is_both_ones() -> None:
    secret = "sk-proj-0123456789abcdef"

    assert found(secret, secret, secret) == [1, 2]


def test_nothing_shows_what_is_searched_for() -> None:
    secret = "sk-canary-0123456789abcdef"
    watch = Watch([credential(1, secret)])

    assert "canary" not in repr(watch) + repr(list(watch.credentials_in(secret.encode())))
    assert list(watch.credentials_in(secret.encode())) == [Leak(Kind.CREDENTIAL, 1, "cdef")]
