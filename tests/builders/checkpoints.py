"""A job's checkpoints of small files, each one block; and a series of them that differ a little."""

from __future__ import annotations

from typing import Any

import numpy
from blake3 import blake3

from gpunion.vault.manifest import BLOCK_SIZE_BYTES, CheckpointLabel, FileEntry, JobKey, Manifest, Vault


def a_key(job_id: str = "job-1") -> JobKey:
    return JobKey(job_id=job_id, secret=blake3(job_id.encode()).digest())


def name_of(data: bytes) -> str:
    return blake3(data).hexdigest()


def a_label(**changes: Any) -> CheckpointLabel:
    fields: dict[str, Any] = {
        "checkpoint_id": "job-1-e1-c1",
        "job_id": "job-1",
        "epoch": 1,
        "step": 10,
        "progress": 0.1,
        "tier": "app",
        "created_s": 1000.0,
    }
    return CheckpointLabel(**(fields | changes))


def a_manifest(contents: dict[str, bytes], **changes: Any) -> Manifest:
    """A manifest of small files, each one block."""
    files = tuple(
        FileEntry(path=path, size_bytes=len(data), mode=0o100644, blocks=(name_of(data),) if data else ())
        for path, data in contents.items()
    )
    fields: dict[str, Any] = {
        "checkpoint_id": "job-1-e1-c1",
        "job_id": "job-1",
        "epoch": 1,
        "step": 10,
        "progress": 0.1,
        "tier": "app",
        "parent": None,
        "created_s": 1000.0,
        "files": files,
        "block_size_bytes": BLOCK_SIZE_BYTES,
        "total_bytes": sum(entry.size_bytes for entry in files),
        "new_bytes": 0,
    }
    return Manifest(**(fields | changes))


def sealed(vault: Vault, contents: dict[str, bytes], **changes: Any) -> Manifest:
    manifest = a_manifest(contents, **changes)
    vault.begin(manifest.job_id, manifest.epoch)
    for data in contents.values():
        if data:
            vault.put(name_of(data), data)
    vault.seal(manifest)
    return manifest


def state(number: int) -> bytes:
    """Weights that move a little with every number."""
    start = numpy.random.default_rng(0).standard_normal(20_000)
    return (start + 1e-5 * number).astype("f4").tobytes()


def series(vault: Vault, count: int) -> list[Manifest]:
    """Seals that many states, each like the one before."""
    found = []
    for number in range(count):
        vault.begin("job-1", 1)
        stored_bytes = vault.put(name_of(state(number)), state(number))
        label = {"checkpoint_id": f"c{number}", "step": number, "new_bytes": stored_bytes}
        found.append(sealed(vault, {"w": state(number)}, **label))
    return found
