"""A machine's own credentials of a place, from where the campus's configuration says they are."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpunion.vault.locations import Place
from gpunion.vault.manifest import VaultDenied

PARTS = ("access_key_id", "secret_access_key", "session_token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


def credentials_of(place: Place, environment: Mapping[str, str]) -> Credentials:
    """VaultDenied says what is missing. What is found shows in no message."""
    source, _, where = place.credentials.partition(":")
    found = _from_file(place, Path(where)) if source == "file" else _from_environment(where, environment)
    missing = [part for part in PARTS[:2] if not found.get(part)]
    if missing:
        written = (
            f"{where} lacks {' and '.join(missing)}"
            if source == "file"
            else " and ".join(f"{where}_{part.upper()}" for part in missing)
            + " is not set where the agent runs"
        )
        raise VaultDenied(f"the place {place.name}: {written}. Next: ask the campus operator for a key of it")
    torn = [part for part in PARTS if not all("!" <= sign <= "~" for sign in found.get(part, ""))]
    if torn:
        raise VaultDenied(
            f"the place {place.name}: {' and '.join(torn)} of {where} has a blank, a line break or another "
            "sign that no key has. Next: copy it anew, without what stands around it"
        )
    return Credentials(**{part: found[part] for part in PARTS if part in found})


def _from_environment(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    found = {part: environment.get(f"{name}_{part.upper()}", "") for part in PARTS}
    return {part: value for part, value in found.items() if value}


def _from_file(place: Place, path: Path) -> dict[str, str]:
    try:
        if path.stat().st_mode & 0o077:
            raise VaultDenied(f"the place {place.name}: others can read {path}. Next: chmod 600 {path}")
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise VaultDenied(
            f"the place {place.name}: {path} cannot be read ({error.strerror}). "
            'Next: write access_key_id = "..." and secret_access_key = "..." into it, and chmod 600'
        ) from error
    except ValueError:  # what the parser says repeats what is written there
        raise VaultDenied(
            f'the place {place.name}: {path} is not of lines like access_key_id = "...". Next: correct it'
        ) from None
    return {part: str(table[part]) for part in PARTS if part in table}
