"""The file that says that a directory is a vault, and of which format: `vault.json`."""

from __future__ import annotations

import json
from pathlib import Path

from gpunion.vault.damage import in_words
from gpunion.vault.manifest import BLOCK_SIZE_BYTES, VaultUnavailable

FORMAT_FILE = "vault.json"
FORMAT = {"format": 3, "block_size_bytes": BLOCK_SIZE_BYTES}


def format_record() -> bytes:
    return json.dumps(FORMAT).encode()


def check_format(root: Path, record: bytes) -> None:
    """VaultUnavailable where it is another's, or says nothing."""
    try:
        found = json.loads(record)
    except ValueError as error:
        raise VaultUnavailable(
            f"{root / FORMAT_FILE} is damaged: {in_words(error)}. "
            f"Next: write into it what every vault of this version has: {json.dumps(FORMAT)}"
        ) from error
    if found != FORMAT:
        raise VaultUnavailable(f"{root} is a vault of another format: {found}")
