"""Small directories as lists and blocks, for whoever has to offer or serve one."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass

from gpunion.vault.job_directories import digest_of, encode_list
from gpunion.vault.tree import BLOCK_SIZE_BYTES, FileEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallTree:
    digest: str
    listing: bytes
    blocks: dict[str, bytes]
    files: tuple[FileEntry, ...]


def a_tree(files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> SmallTree:
    blocks: dict[str, bytes] = {}
    entries = [_entry(path, data, stat.S_IFREG | 0o644, blocks) for path, data in files.items()]
    for path, target in (links or {}).items():
        entries.append(_entry(path, target.encode(), stat.S_IFLNK | 0o777, blocks))
    listing = encode_list(entries)
    return SmallTree(digest=digest_of(listing), listing=listing, blocks=blocks, files=tuple(entries))


def _entry(path: str, data: bytes, mode: int, blocks: dict[str, bytes]) -> FileEntry:
    names = []
    for at in range(0, len(data), BLOCK_SIZE_BYTES):
        piece = data[at : at + BLOCK_SIZE_BYTES]
        names.append(digest_of(piece))
        blocks[names[-1]] = piece
    return FileEntry(path=path, size_bytes=len(data), mode=mode, blocks=tuple(names))
