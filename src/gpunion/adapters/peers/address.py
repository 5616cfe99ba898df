"""Which of this machine's addresses others on the campus would use."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit


def address_towards(url: str) -> str:
    """The one that packets to `url` would leave from. Sends none: a datagram socket only looks up the way."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM)
        for family, kind, protocol, _, there in found:
            with socket.socket(family, kind, protocol) as looking:
                looking.connect(there)
                return str(looking.getsockname()[0])
    except OSError:
        pass
    return socket.gethostname()
