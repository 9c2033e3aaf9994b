"""Which hosts and addresses are the public internet's, and how places are written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

Place = tuple[str, int]
"""Host, as browsers write it but without brackets, and port."""

_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}
_ADDRESS = re.compile(
    r"\d+(?:\.\d+){3}|\[?[0-9a-f:.]*:[0-9a-f:.]*(?:%.*)?\]?|(?:.*\.)?localhost\.?"
)
_NAT64 = IPv6Network("64:ff9b::/96")
_PUBLIC_IPV6 = IPv6Network("2000::/3")


def place_of(url: str) -> Place:
    """Return the host and port that a URL leads to; ("", 0) if to none."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)


def written(place: Place) -> str:
    """Return a place as host:port."""
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_address(host: str) -> bool:
    """Whether a host, as browsers write it, is an IP address or a name of this machine."""
    return bool(_ADDRESS.fullmatch(host))


def is_private(host: str) -> bool:
    """Whether a host, as browsers write it, is an address that is not the public internet's.

    So are loopback, private, link-local, multicast and reserved ones, and `localhost`. Another
    name is not resolved.
    """
    if not is_address(host):
        return False
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return True  # localhost
    if isinstance(address, IPv6Address):
        if address in _NAT64:
            address = IPv4Address(int(address) & 0xFFFFFFFF)
        elif address not in _PUBLIC_IPV6:
            return True
    return not address.is_global or address.is_multicast


def matches(host: str, patterns: Iterable[str]) -> bool:
    """Whether a host is one of those listed, each a host or `*.` and a domain it is to be in."""
    host = host.rstrip(".")
    return any(
        host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern
        for pattern in patterns
    )
