"""Which of this machine's addresses others on the campus would use."""

from __future__ import annotations

import socket
from contextlib import suppress
from urllib.parse import urlsplit


def address_towards(url: str) -> str:
    """The one that packets to `url` would leave from; the machine's name where there is no way to it now."""
    return address_now(url) or socket.gethostname()


def address_now(url: str) -> str:
    """The same, and empty where there is no way: the network is not up yet, or nobody knows the name. Sends
    nothing: a datagram socket only looks up the way."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM)
    except OSError:
        return ""
    for family, kind, protocol, _, there in found:
        with suppress(OSError), socket.socket(family, kind, protocol) as looking:
            looking.connect(there)  # a name may have addresses of a family that leads nowhere from here
            return str(looking.getsockname()[0])
    return ""
