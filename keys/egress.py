"""Where Bridge may connect to: base URLs and addresses, checked purely.

A base URL is read by one parser, normalised, and from then on used in that form only. Names are resolved at
connect time, and `is_allowed_address` is asked about every address then; see translator/upstream.py.

Sources: https://www.iana.org/assignments/iana-ipv4-special-registry and its IPv6 twin (through `ipaddress`),
https://url.spec.whatwg.org/#ends-in-a-number-checker.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address

LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
PATH = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:-]+)*/?")
#: Reserved names, and those that only mean something inside one network.
PRIVATE_SUFFIXES = (
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "lan",
    "home.arpa",
    "test",
    "invalid",
    "onion",
)
#: IPv6 ranges that carry an IPv4 address in their last 32 bits.
EMBEDDING_NETWORKS = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("::/96"))


class RefusedURL(ValueError):
    """The base URL may not be called; the text says why, for the operator."""


def check_base_url(url: str, allowed: Iterable[str]) -> str:
    """Return the normalised base URL, without a trailing slash.

    Args:
        url: What the operator typed.
        allowed: Hosts and networks that may be private and may be called without TLS.

    Raises:
        RefusedURL: It may not be called.
    """
    allowed = tuple(allowed)
    url = url.strip()
    _refuse_if(
        not url.isprintable() or any(char in url for char in " \\@%?#"), "has a character that no base URL needs"
    )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        msg = "the base URL makes no sense"
        raise RefusedURL(msg) from exc
    _refuse_if(parts.scheme not in ("https", "http"), "must begin with https://")
    _refuse_if(port == 0 or parts.netloc.endswith(":"), "has no valid port")
    _refuse_if(not PATH.fullmatch(parts.path) or "/.." in parts.path or "/./" in parts.path + "/", "has an odd path")
    host = _checked_host(parts.hostname or "", allowed)
    _refuse_if(
        parts.scheme == "http" and not is_allowed_host(host, allowed),
        "must begin with https:// (plain http only for hosts in BRIDGE_ALLOW_PRIVATE_UPSTREAMS)",
    )
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def is_allowed_host(host: str, allowed: Iterable[str]) -> bool:
    """Tell whether the operator named this host, or a network that holds it when it is an address."""
    allowed = tuple(allowed)
    if host.lower() in (entry.lower() for entry in allowed):
        return True
    address = _address(host)
    return address is not None and _is_listed(address, allowed)


def is_allowed_address(ip: str | Address, allowed: Iterable[str]) -> bool:
    """Tell whether a connection to `ip` may be opened: it is public, or the operator allowed it."""
    address = ip_address(ip) if isinstance(ip, str) else ip
    return _is_listed(address, tuple(allowed)) or _is_public(address)


def _checked_host(typed: str, allowed: tuple[str, ...]) -> str:
    """Return the host in its one normal form: an address, or an ASCII name."""
    host = _ascii(typed)
    address = _address(host)
    if address is not None:
        _refuse_if(not is_allowed_address(address, allowed), "leads to a private or reserved address")
        return str(address)
    labels = host.split(".")
    _refuse_if(not all(LABEL.fullmatch(label) for label in labels) or len(host) > 253, "has no valid host")
    # Other parsers would take 127.1, 0177.1, 0x7f.1 or 2130706433 for an address.
    _refuse_if(bool(re.fullmatch(r"[0-9]+|0x[0-9a-f]*", labels[-1])), "has an address in an unusual form")
    is_private = len(labels) == 1 or any(host == end or host.endswith(f".{end}") for end in PRIVATE_SUFFIXES)
    _refuse_if(is_private and not is_allowed_host(host, allowed), "names a host of a private network")
    return host


def _ascii(host: str) -> str:
    try:
        return host.encode("idna").decode("ascii").lower()
    except UnicodeError as exc:
        msg = "the base URL has no valid host"
        raise RefusedURL(msg) from exc


def _address(host: str) -> Address | None:
    if "%" in host:
        return None
    try:
        return ip_address(host)
    except ValueError:
        return None


def _is_listed(address: Address, allowed: tuple[str, ...]) -> bool:
    for entry in allowed:
        try:
            network = ip_network(entry.strip("[]"), strict=False)
        except ValueError:
            continue  # a name
        if any(form in network for form in (address, _inner(address)) if form is not None):
            return True
    return False


def _is_public(address: Address) -> bool:
    inner = _inner(address)
    if inner is not None:
        return _is_public(inner)
    return address.is_global and not address.is_multicast and not address.is_reserved


def _inner(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 one stands for; None when it stands for itself."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in EMBEDDING_NETWORKS) and int(address) > 1:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _refuse_if(wrong: bool, reason: str) -> None:
    if wrong:
        msg = f"the base URL {reason}"
        raise RefusedURL(msg)
