import pytest

from keys.networks import NETWORKS_MAX, is_within, networks_of, parse_networks


def test_networks_are_read_with_commas_or_spaces_between() -> None:
    assert parse_networks("10.0.0.0/8, 192.0.2.7 2001:db8::/32,10.0.0.0/8") == [
        "10.0.0.0/8",
        "192.0.2.7/32",
        "2001:db8::/32",
    ]
    assert parse_networks(" , ") == []


def test_a_network_written_by_one_of_its_addresses_is_the_network() -> None:
    assert parse_networks("192.0.2.7/24") == ["192.0.2.0/24"]


@pytest.mark.parametrize("wrong", ["office", "10.0.0.0/33", "10.0.0.1-10.0.0.9", "*", "::1/129"])
def test_what_is_no_network_is_named(wrong: str) -> None:
    with pytest.raises(ValueError, match="is neither an address nor a network"):
        parse_networks(f"10.0.0.0/8, {wrong}")


def test_there_is_an_end_to_how_many() -> None:
    with pytest.raises(ValueError, match="more than"):
        parse_networks(" ".join(f"10.0.0.{n}" for n in range(NETWORKS_MAX + 1)))


@pytest.mark.parametrize(
    ("address", "is_in"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("2001:db8::1", True),
        ("11.0.0.1", False),
        ("2001:db9::1", False),
        ("", False),
        ("a unix socket", False),
    ],
)
def test_an_address_is_in_a_network_or_not(address: str, is_in: bool) -> None:
    assert is_within(address, networks_of(["10.0.0.0/8", "2001:db8::/32"])) is is_in
