"""`[keeps]` of agent.toml: the disk that an owner lends for checkpoints of other people's jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpunion.text import amount_of_memory, number

KEYS = {"directory", "limit", "port", "host"}
DEFAULT_PORT = 8476
PORT_MAX = 65_535
HOST_PATTERN = re.compile(r"[\w.-]*|[0-9A-Fa-f:.]+")
EVERYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeps:
    directory: Path
    limit_bytes: int
    port: int
    host: str  # the address others use; "": as for blocks, or the one towards the coordinator


def keeps_of(table: Mapping[str, Any]) -> Keeps:
    """ValueError says what is wrong."""
    directory = table.get("directory", "")
    if not isinstance(directory, str) or not directory.startswith("/"):
        raise ValueError("keeps.directory begins with /: it says where checkpoints are kept on this machine")
    if "limit" not in table:
        raise ValueError('keeps.limit is missing: how much of the disk you lend, such as "200 GB"')
    host = table.get("host", "")
    if not isinstance(host, str) or not HOST_PATTERN.fullmatch(host) or host in EVERYWHERE:
        raise ValueError(
            f"keeps.host {host!r} is no address of this machine that others could use; "
            "left out, it is the one towards the coordinator"
        )
    port = number(table.get("port", DEFAULT_PORT), "keeps.port")
    if not 0 < port <= PORT_MAX or port != int(port):
        raise ValueError(f"keeps.port {table['port']!r} is no port; {DEFAULT_PORT} is as good as any")
    return Keeps(
        directory=Path(directory),
        limit_bytes=amount_of_memory(table["limit"], "keeps.limit"),
        port=int(port),
        host=host,
    )
