import base64

import pytest

from keys.secrets import KeyRing, Place, SealingError, UnknownKey, Unreadable, parse_key_ring, sealed_under

RING = KeyRing(in_use="b", keys={"b": b"b" * 32, "a": b"a" * 32})
HERE = Place(table="keys_credential", pk=1, field="sealed_secret")


def test_what_was_sealed_opens_in_its_place() -> None:
    sealed = RING.seal("sk-canary", HERE)

    assert RING.unseal(sealed, HERE) == "sk-canary"
    assert sealed.startswith("v1.b.")
    assert "canary" not in sealed
    assert sealed_under(sealed) == "b"


def test_the_same_secret_never_looks_the_same_twice() -> None:
    assert RING.seal("sk-canary", HERE) != RING.seal("sk-canary", HERE)


@pytest.mark.parametrize(
    "elsewhere",
    [
        Place(table="keys_credential", pk=2, field="sealed_secret"),
        Place(table="keys_upstream", pk=1, field="sealed_secret"),
        Place(table="keys_credential", pk=1, field="other"),
    ],
)
def test_a_secret_moved_elsewhere_does_not_open(elsewhere: Place) -> None:
    sealed = RING.seal("sk-canary", HERE)

    with pytest.raises(Unreadable):
        RING.unseal(sealed, elsewhere)


def test_an_old_key_opens_and_the_new_one_seals() -> None:
    old = KeyRing(in_use="a", keys={"a": b"a" * 32})

    assert RING.unseal(old.seal("sk-canary", HERE), HERE) == "sk-canary"


def test_a_relabelled_key_id_does_not_open() -> None:
    sealed = RING.seal("sk-canary", HERE).replace("v1.b.", "v1.a.")

    with pytest.raises(Unreadable):
        RING.unseal(sealed, HERE)


def test_a_key_that_left_the_ring_is_named() -> None:
    sealed = KeyRing(in_use="c", keys={"c": b"c" * 32}).seal("sk-canary", HERE)

    with pytest.raises(UnknownKey, match="'c'"):
        RING.unseal(sealed, HERE)


@pytest.mark.parametrize(
    "text", ["", "sk-plain", "v1", "v1.b", "v2.b.AAAA", "v1..AAAA", "v1.b.", "v1.b.***", "v1.b.AAAA", "v1.b.AAAA.B"]
)
def test_what_was_never_sealed_raises(text: str) -> None:
    with pytest.raises(SealingError):
        RING.unseal(text, HERE)


def test_the_repr_of_a_ring_tells_no_key() -> None:
    assert "bbbb" not in repr(RING)


def test_the_first_key_of_the_ring_is_in_use() -> None:
    first, second = (base64.b64encode(byte * 32).decode() for byte in (b"1", b"2"))

    ring = parse_key_ring(f"new:{first}, old:{second},")

    assert ring.in_use == "new"
    assert set(ring.keys) == {"new", "old"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "k1",
        "k1:",
        "k1:short",
        "k 1:" + base64.b64encode(b"1" * 32).decode(),
        "k1:" + base64.b64encode(b"1" * 16).decode(),
        ",".join(["k1:" + base64.b64encode(b"1" * 32).decode()] * 2),
    ],
)
def test_a_ring_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"encryption key|ring"):
        parse_key_ring(text)
