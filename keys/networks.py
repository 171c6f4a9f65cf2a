"""The networks that a client token may be used from."""

from collections.abc import Collection, Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

type Network = IPv4Network | IPv6Network

#: So many fit in a token's form without anybody losing sight.
NETWORKS_MAX = 50


def parse_networks(text: str) -> list[str]:
    """Read networks and addresses with commas or spaces between: `10.0.0.0/8, 192.0.2.7, 2001:db8::/32`.

    Raises:
        ValueError: One of them is neither; says which.
    """
    words = text.replace(",", " ").split()
    if len(words) > NETWORKS_MAX:
        msg = f"more than {NETWORKS_MAX} networks"
        raise ValueError(msg)
    found = []
    for word in words:
        try:
            found.append(str(ip_network(word, strict=False)))
        except ValueError:
            msg = f"{word[:60]} is neither an address nor a network such as 10.0.0.0/8"
            raise ValueError(msg) from None
    return list(dict.fromkeys(found))


def networks_of(stored: Iterable[str]) -> tuple[Network, ...]:
    """Return what `parse_networks` wrote."""
    return tuple(ip_network(one) for one in stored)


def admits(networks: Collection[Network], address: str) -> bool:
    """Tell whether an address is among those that are let in; no networks let in all."""
    return not networks or is_within(address, networks)


def is_within(address: str, networks: Iterable[Network]) -> bool:
    """Tell whether an address lies in one of the networks; what is no address lies in none."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in networks)
