from ipaddress import ip_address

import pytest

from keys.egress import RefusedURL, check_base_url, is_allowed_address, is_allowed_host

ACCEPTED = [
    ("https://api.example.com/v1", "https://api.example.com/v1"),
    ("https://api.example.com/v1/", "https://api.example.com/v1"),
    ("  https://API.Example.COM  ", "https://api.example.com"),
    ("https://api.example.com:8443/openai/v1", "https://api.example.com:8443/openai/v1"),
    ("https://8.8.8.8/v1", "https://8.8.8.8/v1"),
    ("https://[2606:4700:4700::1111]/v1", "https://[2606:4700:4700::1111]/v1"),
    ("https://bücher.example/v1", "https://xn--bcher-kva.example/v1"),
    ("https://api.example.com/v1/accounts/a_b-c.d~e", "https://api.example.com/v1/accounts/a_b-c.d~e"),
]

REFUSED = [
    "",
    "api.example.com/v1",
    "http://api.example.com/v1",
    "ftp://api.example.com",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "https://",
    "https:///v1",
    "https://user:secret@api.example.com",
    "https://api.example.com@evil.example",
    "https://api.example.com\\@evil.example",
    "https://api.example.com\\evil",
    "https://api.example.com/v1?x=1",
    "https://api.example.com/v1#x",
    "https://api.example.com/%2e%2e/v1",
    "https://%61pi.example.com/",
    "https://api.example.com/v1/../admin",
    "https://api.example.com//v1",
    "https://api.example.com/v 1",
    "https://api.example.com/\r\nHost: evil",
    "https://api.example.com:0/",
    "https://api.example.com:99999/",
    "https://api.example.com:/",
    "https://api.example.com./v1",
    "https://localhost/v1",
    "https://localhost./v1",
    "https://foo.localhost/v1",
    "https://metadata.google.internal/",
    "https://router/v1",
    "https://127.0.0.1/v1",
    "https://127.1/v1",
    "https://0177.1/v1",
    "https://0177.0.0.1/v1",
    "https://0x7f.1/v1",
    "https://0x7f000001/v1",
    "https://2130706433/v1",
    "https://0/v1",
    "https://0.0.0.0/v1",
    "https://10.0.0.1/v1",
    "https://172.16.0.1/v1",
    "https://192.168.1.1/v1",
    "https://169.254.169.254/latest/meta-data",
    "https://100.64.0.1/v1",
    "https://224.0.0.1/v1",
    "https://255.255.255.255/v1",
    "https://[::1]/v1",
    "https://[::]/v1",
    "https://[::ffff:127.0.0.1]/v1",
    "https://[::ffff:7f00:1]/v1",
    "https://[::127.0.0.1]/v1",
    "https://[64:ff9b::7f00:1]/v1",
    "https://[2002:7f00:1::]/v1",
    "https://[fe80::1]/v1",
    "https://[fe80::1%25eth0]/v1",
    "https://[fc00::1]/v1",
    "https://[fd00:ec2::254]/v1",
    "https://[ff02::1]/v1",
    "https://[::1/v1",
    "https://１２７.０.０.１/v1",  # noqa: RUF001
    "https://127。0。0。1/v1",
    "https://ⓛocalhost/v1",
    "https://a..example.com/v1",
    "https://-a.example.com/v1",
    f"https://{'a' * 64}.example.com/v1",
]


@pytest.mark.parametrize(("url", "normal"), ACCEPTED)
def test_a_public_base_url_is_normalised(url: str, normal: str) -> None:
    assert check_base_url(url, []) == normal
    assert check_base_url(normal, []) == normal


@pytest.mark.parametrize("url", REFUSED)
def test_every_other_form_is_refused(url: str) -> None:
    with pytest.raises(RefusedURL, match="the base URL"):
        check_base_url(url, [])


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://127.0.0.1:9000/v1", ["127.0.0.1"]),
        ("http://127.0.0.1:9000/v1", ["127.0.0.0/8"]),
        ("http://localhost:9000/v1", ["localhost"]),
        ("http://[::1]:9000/v1", ["::1"]),
        ("http://vllm:8000/v1", ["10.0.0.0/8", "vllm"]),
        ("https://10.1.2.3/v1", ["10.0.0.0/8"]),
        ("http://models.lan/v1", ["MODELS.lan"]),
    ],
)
def test_what_the_operator_named_is_accepted(url: str, allowed: list[str]) -> None:
    assert check_base_url(url, allowed) == url


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://127.0.0.1:9000/v1", ["127.0.0.2", "10.0.0.0/8", "localhost"]),
        ("http://evil-localhost/v1", ["localhost"]),
        ("http://localhost.evil.example/v1", ["localhost"]),
        ("https://10.1.2.3/v1", ["192.168.0.0/16", "not a network"]),
    ],
)
def test_what_the_operator_did_not_name_stays_refused(url: str, allowed: list[str]) -> None:
    with pytest.raises(RefusedURL):
        check_base_url(url, allowed)


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("8.8.8.8", True),
        ("2606:4700:4700::1111", True),
        ("::ffff:8.8.8.8", True),
        ("127.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:169.254.169.254", False),
        ("2002:a00:1::", False),
        ("64:ff9b::a00:1", False),
        ("0.0.0.0", False),  # noqa: S104
        ("fd12::1", False),
        ("198.18.0.1", False),
        ("240.0.0.1", False),
    ],
)
def test_only_public_addresses_may_be_dialled(address: str, is_allowed: bool) -> None:
    assert is_allowed_address(address, []) is is_allowed
    assert is_allowed_address(ip_address(address), []) is is_allowed


def test_an_allowed_network_also_covers_its_mapped_form() -> None:
    assert is_allowed_address("::ffff:10.0.0.1", ["10.0.0.0/8"])
    assert not is_allowed_address("::ffff:10.0.0.1", ["11.0.0.0/8"])
    assert is_allowed_host("10.0.0.1", ["10.0.0.0/8"])
    assert not is_allowed_host("name.example", ["10.0.0.0/8"])
