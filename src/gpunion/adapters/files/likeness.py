"""Which blocks of an earlier checkpoint are probably similar to those of a file of a new one."""

from __future__ import annotations

import re

from gpunion.ports.vault import BadManifest, FileEntry, Manifest, Vault, VaultFault

DIGITS = re.compile(r"\d+")


class Likeness:
    """The same path; else one that differs in its numbers only (`step-100.pt`, `step-200.pt`)."""

    def __init__(self, manifest: Manifest | None) -> None:
        self._by_path: dict[str, FileEntry] = {}
        self._by_shape: dict[str, FileEntry] = {}
        for entry in manifest.files if manifest is not None else ():
            self._by_path[entry.path] = entry
            self._by_shape[_shape(entry.path)] = entry  # the last of several is the youngest, mostly

    def blocks(self, path: str) -> tuple[str, ...]:
        entry = self._by_path.get(path) or self._by_shape.get(_shape(path))
        return entry.blocks if entry is not None else ()


def parent_of(vault: Vault, job_id: str, parent: str | None) -> Manifest | None:
    """The named one or the newest. None when it cannot be read: it would only have saved space."""
    try:
        return vault.latest(job_id) if parent is None else vault.get(job_id, parent)
    except VaultFault as fault:
        if fault.temporary and not isinstance(fault, BadManifest):
            raise
        return None


def _shape(path: str) -> str:
    return DIGITS.sub("#", path)
