"""Which coordinator is meant, and with which token: flags, then the environment, then what `login` kept,
then a coordinator of this very user on this very machine.

A token goes only to the address it was kept for: `--url` alone never sends a remembered token elsewhere.
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpunion.cli.exits import DENIED, UNAVAILABLE, USAGE, Trouble

CONFIG_FILE = "client.toml"
KEYS = ("url", "token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    url: str
    token: str
    source: str  # for people: where it came from


def config_path(environment: Mapping[str, str]) -> Path:
    home = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME") or Path.home()) / ".config"
    return Path(home) / "gpunion" / CONFIG_FILE


def find_address(environment: Mapping[str, str], arguments: Namespace) -> Address:
    url = arguments.url or environment.get("GPUNION_URL") or ""
    token = arguments.token or environment.get("GPUNION_TOKEN") or ""
    if url:
        url = checked_url(url)
    if url and token:
        return Address(url=url, token=token, source="flags and environment")
    for candidate in (_kept(environment), _local(environment)):
        if candidate is not None and (not url or candidate.url == url):
            return Address(url=candidate.url, token=token or candidate.token, source=candidate.source)
    if not url:
        raise Trouble(
            "no coordinator is known",
            why=f"there is no --url, no GPUNION_URL and no {config_path(environment)}",
            next_step="gpunion login URL --token TOKEN (or, to start one here: gpunion coordinator)",
            code=UNAVAILABLE,
        )
    raise Trouble(
        f"there is no token for {url}",
        next_step="give --token or GPUNION_TOKEN, or gpunion login URL --token TOKEN",
        code=DENIED,
    )


def checked_url(url: str) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
        _ = parts.port
    except ValueError:
        fine = False
    if not fine:
        raise Trouble(
            f"{url!r} is not a coordinator's address",
            why="it looks like https://campus.example:8765",
            code=USAGE,
        )
    return url.rstrip("/")


def keep(environment: Mapping[str, str], url: str, token: str) -> Path:
    """Write the config file whole or not at all, for its user's eyes only."""
    path = config_path(environment)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            # JSON's strings are TOML's.
            file.write(f"url = {json.dumps(url)}\ntoken = {json.dumps(token)}\n")
            file.flush()
            os.fsync(file.fileno())
        os.rename(unfinished, path)
    except OSError as error:
        raise Trouble(
            f"{path} cannot be written",
            why=error.strerror or str(error),
            next_step="export GPUNION_URL and GPUNION_TOKEN instead, or XDG_CONFIG_HOME=FOLDER",
        ) from error
    return path


def _kept(environment: Mapping[str, str]) -> Address | None:
    path = config_path(environment)
    import tomllib

    try:
        if path.stat().st_mode & 0o077:
            raise Trouble(
                f"other users can read {path}, which holds a token",
                next_step=f"chmod 600 {path}, and have the token changed if somebody else uses this machine",
                code=DENIED,
            )
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Trouble(
            f"{path} cannot be read", why=str(error), next_step="gpunion login URL --token TOKEN"
        ) from error
    from gpunion.cli.parser import did_you_mean

    for key in table:
        if key not in KEYS:
            raise Trouble(f"{path} does not know {key!r}{did_you_mean(key, KEYS)}")
    if not isinstance(table.get("url"), str):
        return None
    return Address(url=checked_url(table["url"]), token=str(table.get("token", "")), source=str(path))


def _local(environment: Mapping[str, str]) -> Address | None:
    """The coordinator this user runs here, as its own files say. Only its user can read them."""
    from gpunion.coordinator.settings import ENVIRONMENT_PREFIX, default_data_dir

    return address_in(Path(environment.get(f"{ENVIRONMENT_PREFIX}DATA_DIR") or default_data_dir()))


def address_in(data_dir: Path) -> Address | None:
    """Where the coordinator with this data directory listens; None where none does."""
    try:
        url = (data_dir / "address").read_text(encoding="utf-8").strip()
        token = (data_dir / "admin.token").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return Address(url=url.rstrip("/"), token=token, source=str(data_dir)) if url else None
