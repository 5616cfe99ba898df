"""Which places guests may reach, as an owner writes them: `host:port`, `*.host:port` or `network:port`.

A name leads only to addresses of the public internet: whoever runs a name's server could point it at the
owner's own network otherwise. An address that is not public has to be listed itself, or a network of it.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

PORTS = range(1, 65_536)
PLACES_MAX = 256  # read anew for every connection
NAME = re.compile(r"(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
NAME_MAX_CHARS = 253

# No network of a public registry is larger; "everywhere" does not mean the owner's own network.
LARGEST_PRIVATE_PREFIX = {4: 8, 6: 7}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`port` None: every port. Exactly one of `name` and `network` is there."""

    port: int | None
    name: str = ""
    network: Network | None = None

    def admits_name(self, name: str, port: int) -> bool:
        if not self.name or self.port not in (None, port):
            return False
        wanted = name.lower().removesuffix(".")
        if self.name.startswith("*."):
            return wanted.endswith(self.name[1:])
        return wanted == self.name

    def admits_address(self, address: Address, port: int) -> bool:
        if self.network is None or self.port not in (None, port) or address not in self.network:
            return False
        return address.is_global or self.network.prefixlen >= LARGEST_PRIVATE_PREFIX[address.version]


def parse_place(text: str) -> Place:
    """ValueError says what is wrong with it."""
    host, colon, port_text = text.strip().rpartition(":")
    if not colon or not host:
        raise ValueError(f"{text!r} is no place: write host:port or network/bits:port, like data.example:443")
    port = _port(port_text, text)
    bare = host.removeprefix("[").removesuffix("]")
    try:
        return Place(port=port, network=ipaddress.ip_network(bare, strict=False))
    except ValueError:
        name = host.lower().removesuffix(".")
    if "/" in host or len(name) > NAME_MAX_CHARS or NAME.fullmatch(name) is None:
        raise ValueError(f"{text!r}: {host!r} is neither a host's name nor a network")
    return Place(port=port, name=name)


def may_reach(places: tuple[Place, ...], name: str, address: Address, port: int) -> bool:
    """Whether a guest may be connected to `address`, which is what the `name` it gave means right now."""
    address = plain(address)
    if any(place.admits_address(address, port) for place in places):
        return True
    return address.is_global and any(place.admits_name(name, port) for place in places)


def plain(address: Address) -> Address:
    """An IPv4 address that is written as one of IPv6 is an IPv4 address."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def _port(text: str, place: str) -> int | None:
    if text == "*":
        return None
    if not text.isdecimal() or int(text) not in PORTS:
        raise ValueError(f"{place!r}: {text!r} is no port; write a number, or * for all")
    return int(text)
