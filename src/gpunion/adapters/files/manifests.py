"""Manifests as bytes and back, and what every one of them must satisfy before anybody acts on it."""

from __future__ import annotations

import json
import re
import stat
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

from blake3 import blake3

from gpunion.ports.vault import BLOCK_SIZE_BYTES, BadManifest, FileEntry, Manifest

FORMAT = 1
HASH_PATTERN = re.compile(r"[0-9a-f]{64}")
ID_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
FILES_MAX = 100_000
PERMISSIONS = 0o777  # no set-user-id bit travels through a vault


def encode(manifest: Manifest) -> bytes:
    body = json.dumps(asdict(manifest), sort_keys=True, separators=(",", ":"))
    record = {"format": FORMAT, "blake3": blake3(body.encode()).hexdigest(), "manifest": body}
    return json.dumps(record).encode()


def decode(data: bytes) -> Manifest:
    """`BadManifest` for anything that is not exactly what `encode` made."""
    try:
        record = json.loads(data)
        body = record["manifest"]
        if record["format"] != FORMAT or blake3(body.encode()).hexdigest() != record["blake3"]:
            raise BadManifest("the manifest is damaged: its checksum does not match")
        manifest = _manifest(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadManifest(f"the manifest is damaged: {error}") from error
    check(manifest)
    return manifest


def check(manifest: Manifest) -> None:
    """Refuse what could write outside its directory, or what does not add up."""
    for name in (manifest.checkpoint_id, manifest.job_id):
        check_id(name)
    if manifest.block_size_bytes != BLOCK_SIZE_BYTES:
        raise BadManifest(f"blocks of {manifest.block_size_bytes} bytes, not {BLOCK_SIZE_BYTES}")
    if manifest.epoch < 0 or manifest.step < 0:
        raise BadManifest("a negative epoch or step")
    if len(manifest.files) > FILES_MAX:
        raise BadManifest(f"more than {FILES_MAX} files")
    kinds: dict[str, int] = {}
    for entry in manifest.files:
        check_path(entry.path)
        _check_entry(entry)
        if entry.path in kinds:
            raise BadManifest(f"{entry.path!r} is there twice")
        kinds[entry.path] = stat.S_IFMT(entry.mode)
    for path in kinds:
        for parent in PurePosixPath(path).parents:
            if kinds.get(str(parent), stat.S_IFDIR) != stat.S_IFDIR:
                raise BadManifest(f"{path!r} lies inside {str(parent)!r}, which is no directory")
    if manifest.total_bytes != sum(entry.size_bytes for entry in manifest.files):
        raise BadManifest("the sizes do not add up")


def check_id(name: str) -> None:
    if not ID_PATTERN.fullmatch(name):
        raise BadManifest(f"{name!r} cannot name a job or a checkpoint")


def check_path(path: str) -> None:
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise BadManifest(f"{path!r} does not name a file inside the checkpoint")


def check_link(path: str, target: str) -> None:
    """A link may point to another place of the same checkpoint only."""
    depth = path.count("/")
    for part in target.split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            break
    if target.startswith("/") or not target or depth < 0 or "\0" in target:
        raise BadManifest(f"the link {path!r} leads outside the checkpoint")


def block_names(manifest: Manifest) -> set[str]:
    return {name for entry in manifest.files for name in entry.blocks}


def blocks_of(size_bytes: int) -> int:
    return -(-size_bytes // BLOCK_SIZE_BYTES)


def _check_entry(entry: FileEntry) -> None:
    kind = stat.S_IFMT(entry.mode)
    if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK) or entry.mode & ~(kind | PERMISSIONS):
        raise BadManifest(f"{entry.path!r} has mode {entry.mode:o}")
    if entry.size_bytes < 0 or (kind == stat.S_IFDIR and entry.size_bytes):
        raise BadManifest(f"{entry.path!r} has an impossible size")
    if len(entry.blocks) != blocks_of(entry.size_bytes):
        raise BadManifest(f"{entry.path!r} has {len(entry.blocks)} blocks for {entry.size_bytes} bytes")
    if not all(HASH_PATTERN.fullmatch(block) for block in entry.blocks):
        raise BadManifest(f"{entry.path!r} names a block that cannot be")


def _manifest(fields: dict[str, Any]) -> Manifest:
    files = tuple(FileEntry(**(entry | {"blocks": tuple(entry["blocks"])})) for entry in fields["files"])
    return Manifest(**(fields | {"files": files}))
