"""Manifests as bytes and back, and what every one of them must satisfy before anybody acts on it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

from blake3 import blake3

from gpunion.adapters.files.damage import in_words
from gpunion.domain import tree
from gpunion.domain.tree import BLOCK_SIZE_BYTES, FILES_MAX, HASH_PATTERN, BadTree, FileEntry
from gpunion.ports.vault import MANIFEST_BYTES_MAX, BadManifest, Manifest, SealedFiles

FORMAT = 1
ID_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def encode(manifest: Manifest) -> bytes:
    body = body_of(manifest)
    record = {"format": FORMAT, "blake3": blake3(body).hexdigest(), "manifest": body.decode()}
    data = json.dumps(record).encode()
    if len(data) > MANIFEST_BYTES_MAX:
        raise BadManifest(
            f"the list of its files takes {len(data)} bytes, and no place takes more than "
            f"{MANIFEST_BYTES_MAX}. Next: save fewer files, or put many into one"
        )
    return data


def body_of(manifest: Manifest) -> bytes:
    """Equal ones have equal bodies."""
    found = {field.name: getattr(manifest, field.name) for field in fields(manifest)}
    found["files"] = [
        {"path": file.path, "size_bytes": file.size_bytes, "mode": file.mode, "blocks": file.blocks}
        for file in manifest.files
    ]
    sealed = found.pop("sealed")
    if sealed is not None:
        found["sealed"] = asdict(sealed)
    return json.dumps(found, sort_keys=True, separators=(",", ":")).encode()


def decode(data: bytes) -> Manifest:
    """`BadManifest` for anything that is not exactly what `encode` made."""
    try:
        record = json.loads(data)
        body = record["manifest"]
        if record["format"] != FORMAT or blake3(body.encode()).hexdigest() != record["blake3"]:
            raise BadManifest("the manifest is damaged: its checksum does not match")
        manifest = _manifest(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadManifest(f"the manifest is damaged: {in_words(error)}") from error
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
    if manifest.sealed is not None:
        _check_sealed(manifest, manifest.sealed)
        return
    with _as_bad_manifest():
        tree.check_entries(manifest.files)
    if manifest.total_bytes != sum(entry.size_bytes for entry in manifest.files):
        raise BadManifest("the sizes do not add up")


def check_id(name: str) -> None:
    if not ID_PATTERN.fullmatch(name):
        raise BadManifest(f"{name!r} cannot name a job or a checkpoint")


def check_path(path: str) -> None:
    with _as_bad_manifest():
        tree.check_path(path)


def check_link(path: str, target: str) -> None:
    with _as_bad_manifest():
        tree.check_link(path, target)


def block_names(manifest: Manifest) -> set[str]:
    """As they are stored, where it is sealed; else by the hash of what is in them."""
    if manifest.sealed is not None:
        return set(manifest.sealed.blocks)
    return {name for entry in manifest.files for name in entry.blocks}


@contextmanager
def _as_bad_manifest() -> Iterator[None]:
    try:
        yield
    except BadTree as error:
        raise BadManifest(str(error)) from error


def entries_of(rows: list[dict[str, Any]]) -> tuple[FileEntry, ...]:
    return tuple(FileEntry(**(entry | {"blocks": tuple(entry["blocks"])})) for entry in rows)


def _check_sealed(manifest: Manifest, sealed: SealedFiles) -> None:
    if manifest.files:
        raise BadManifest("it is encrypted and names files in the clear as well")
    if manifest.total_bytes < 0 or len(sealed.blocks) > manifest.total_bytes // BLOCK_SIZE_BYTES + FILES_MAX:
        raise BadManifest("the sizes do not add up")
    if not all(HASH_PATTERN.fullmatch(name) for name in sealed.blocks):
        raise BadManifest("it names a block that cannot be")


def _manifest(found: dict[str, Any]) -> Manifest:
    sealed = found.get("sealed")
    if sealed is not None:
        sealed = SealedFiles(**(sealed | {"blocks": tuple(sealed["blocks"])}))
    return Manifest(**(found | {"files": entries_of(found["files"]), "sealed": sealed}))
