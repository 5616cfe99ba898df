"""Manifests as bytes and back, and what every one of them must satisfy before anybody acts on it.

{"format":2, ...}            all that is said of the checkpoint but its files
["f", ...], ["b", ...]       its files (`vault.rows`); of an encrypted one the blocks, and
["s", text]                  the rest of it in pieces
["e", rows, blake3]          how many rows came before, and the hash of their bytes
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any, BinaryIO

from blake3 import blake3

from gpunion.limits import EPOCH_MAX, ID_PATTERN, MOMENT_MAX_S, SIZE_MAX_BYTES, STEP_MAX
from gpunion.vault import tree
from gpunion.vault.damage import in_words
from gpunion.vault.manifest import MANIFEST_BYTES_MAX, BadManifest, Manifest, SealedFiles
from gpunion.vault.rows import (
    FileRows,
    encode_blocks,
    encode_files,
    line_of,
    rows,
    whole,
)
from gpunion.vault.rows import (
    block_names as named_blocks,
)
from gpunion.vault.tree import BLOCK_SIZE_BYTES, FILES_MAX, HASH_PATTERN, BadTree, FileEntry

FORMAT = 2
TIER_PATTERN = re.compile(r"[a-z]{1,32}")
KEY_ID_PATTERN = re.compile(r"[0-9A-Za-z]{1,128}")
TEXT_PIECE = 32 * 1024
SIZES = ("block_size_bytes", "total_bytes", "new_bytes")


def encode(manifest: Manifest) -> bytes:
    digest, count, written = blake3(), 0, []
    size_bytes = 0
    for line in _rows_of(manifest):
        digest.update(line)
        written.append(line)
        count += 1
        size_bytes += len(line)
    written.append(line_of(["e", count, digest.hexdigest()]))
    size_bytes += len(written[-1])
    if size_bytes > MANIFEST_BYTES_MAX:
        raise BadManifest(
            f"the list of its files takes {size_bytes} bytes, and no place takes more than "
            f"{MANIFEST_BYTES_MAX}. Next: save fewer files, or put many into one"
        )
    return b"".join(written)


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


def decode(data: bytes | BinaryIO) -> Manifest:
    """Row by row. `BadManifest` for anything that is not exactly what `encode` made."""
    source = io.BytesIO(data) if isinstance(data, bytes) else data
    try:
        manifest = _decoded(source.readline)
    except BadTree as error:
        cause = error.__cause__
        words = in_words(cause) if isinstance(cause, Exception) else str(error)
        raise BadManifest(f"the manifest is damaged: {words}") from error
    check(manifest)
    return manifest


def check(manifest: Manifest) -> None:
    """Refuse what could write outside its directory, or what does not add up."""
    for name in (manifest.checkpoint_id, manifest.job_id):
        check_id(name)
    if manifest.block_size_bytes != BLOCK_SIZE_BYTES:
        raise BadManifest(f"blocks of {manifest.block_size_bytes} bytes, not {BLOCK_SIZE_BYTES}")
    if not 0 <= manifest.epoch <= EPOCH_MAX or not 0 <= manifest.step <= STEP_MAX:
        raise BadManifest(f"an epoch beyond 0 to {EPOCH_MAX}, or a step beyond 0 to {STEP_MAX}")
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


def check_links(links: Mapping[str, str]) -> None:
    with _as_bad_manifest():
        tree.check_links(links)


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


def _rows_of(manifest: Manifest) -> Iterator[bytes]:
    head = {field.name: getattr(manifest, field.name) for field in fields(manifest)}
    files, sealed = head.pop("files"), head.pop("sealed")
    head["key_id"] = None if sealed is None else sealed.key_id
    yield line_of({"format": FORMAT, **head})
    if sealed is None:
        yield from encode_files(files)
        return
    yield from encode_blocks(sealed.blocks)
    for at in range(0, len(sealed.body), TEXT_PIECE):
        yield line_of(["s", sealed.body[at : at + TEXT_PIECE]])


def _decoded(lines: Callable[[int], bytes]) -> Manifest:
    digest, head = blake3(), None
    content: FileRows | _SealedRows = FileRows()
    ended = False
    for number, line, row in rows(lines):
        if ended:
            raise BadTree(f"row {number} comes after the last")
        if head is None:
            head = _head(row)
            if head["key_id"] is not None:
                content = _SealedRows(head["key_id"])
        elif isinstance(row, list) and row[:1] == ["e"]:
            if row != ["e", number - 1, digest.hexdigest()]:
                raise BadTree("its checksum does not match")
            ended = True
        else:
            content.take(number, row)
        digest.update(line)
    if head is None or not ended:
        raise BadTree("it was cut short")
    del head["format"], head["key_id"]
    if isinstance(content, _SealedRows):
        return Manifest(**head, files=(), sealed=content.sealed())
    return Manifest(**head, files=content.files())


class _SealedRows:
    def __init__(self, key_id: str) -> None:
        self._key_id = key_id
        self._blocks: list[str] = []
        self._body: list[str] = []

    def take(self, number: int, row: Any) -> None:
        match row:
            case ["b", [_, *_] as names] if not self._body:
                self._blocks += named_blocks(number, names)
            case ["s", str(piece)] if piece:
                self._body.append(piece)
            case _:
                raise BadTree(f"row {number} is neither blocks nor a piece of an encrypted list")

    def sealed(self) -> SealedFiles:
        return SealedFiles(key_id=self._key_id, blocks=tuple(self._blocks), body="".join(self._body))


def _head(row: Any) -> dict[str, Any]:
    names = {field.name for field in fields(Manifest)} - {"files", "sealed"}
    if not isinstance(row, dict) or row.get("format") != FORMAT:
        raise BadTree(f"row 1 is not that of a manifest of format {FORMAT}, which this version reads")
    if row.keys() != names | {"format", "key_id"}:
        raise BadTree(
            f"row 1 has other fields: {', '.join(sorted(row.keys() ^ (names | {'format', 'key_id'})))}"
        )
    _text("checkpoint_id", row, ID_PATTERN)
    _text("job_id", row, ID_PATTERN)
    _text("tier", row, TIER_PATTERN)
    if row["parent"] is not None:
        _text("parent", row, ID_PATTERN)
    if row["key_id"] is not None:
        _text("key_id", row, KEY_ID_PATTERN)
    whole(1, "epoch", row["epoch"], EPOCH_MAX)
    whole(1, "step", row["step"], STEP_MAX)
    for name in SIZES:
        whole(1, name, row[name], SIZE_MAX_BYTES)
    _number("progress", row, 1.0)
    _number("created_s", row, MOMENT_MAX_S)
    return row


def _text(name: str, row: dict[str, Any], pattern: re.Pattern[str]) -> None:
    if not isinstance(row[name], str) or not pattern.fullmatch(row[name]):
        raise BadTree(f"row 1: {name} is no name")


def _number(name: str, row: dict[str, Any], most: float) -> None:
    value = row[name]
    if type(value) not in (int, float) or not 0 <= value <= most:
        raise BadTree(f"row 1: {name} is no number from 0 to {most:g}")
