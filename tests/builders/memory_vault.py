"""A vault without a disk, which fails and waits as a test tells it to."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpunion.agent.dependencies import Fetched
from gpunion.domain.passes import PeerPass
from gpunion.vault.manifest import (
    CheckpointLabel,
    Garbage,
    JobKey,
    Manifest,
    OldEpoch,
    ShipCancelled,
    UnknownCheckpoint,
    Vault,
    VaultFault,
)


@dataclass
class MemoryVault:
    """Manifests in a list; `broken` ids raise when they are restored."""

    journal: list[str]
    sealed: list[Manifest] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    trees: dict[str, dict[str, str]] = field(default_factory=dict)
    broken: dict[str, VaultFault] = field(default_factory=dict)
    ship_fault: VaultFault | None = None
    gate: threading.Event | None = None  # uploads wait for it, as on a slow network
    collected: int = 0
    keys: list[JobKey | None] = field(default_factory=list)  # what was read, saved and restored with
    places: list[tuple[str, ...]] = field(default_factory=list)  # where it was saved and restored

    def begin(self, job_id: str, epoch: int) -> None:
        self.journal.append(f"begin {job_id} {epoch}")
        if epoch < self.epochs.get(job_id, 0):
            raise OldEpoch(f"{job_id} is at {self.epochs[job_id]}")
        self.epochs[job_id] = epoch

    def keyed(self, key: JobKey) -> Vault:
        self.keys.append(key)
        return self

    def has(self, hashes: Iterable[str]) -> set[str]:
        return set(hashes)

    def put(
        self, block_hash: str, data: bytes | memoryview, like: str | None = None, *, named: bool = False
    ) -> int:
        return len(data)

    def seal(self, manifest: Manifest) -> None:
        self.sealed.append(manifest)

    def latest(self, job_id: str) -> Manifest | None:
        return self.sealed[-1] if self.sealed else None

    def get(self, job_id: str, checkpoint_id: str) -> Manifest:
        for manifest in self.sealed:
            if manifest.checkpoint_id == checkpoint_id:
                return manifest
        raise UnknownCheckpoint(checkpoint_id)

    def manifests(self, job_id: str) -> tuple[Manifest, ...]:
        return tuple(manifest for manifest in self.sealed if manifest.job_id == job_id)

    def read_block(self, block_hash: str) -> bytes:
        return b""

    def lend_block(self, block_hash: str) -> bytes:
        return b""

    def waits_for_blocks(self) -> bool:
        return False

    @contextlib.contextmanager
    def hold(self, job_id: str, checkpoint_id: str) -> Iterator[None]:
        yield

    def forget(self, job_id: str, keep: int) -> tuple[str, ...]:
        self.kept = keep
        return ()

    def collect_garbage(self, *, in_need: bool = False) -> Garbage:
        self.collected += 1
        return Garbage(blocks=0, stored_bytes=0)

    def describe(self) -> str:
        return "in memory"

    def ship(
        self,
        directory: Path,
        label: CheckpointLabel,
        *,
        places: tuple[str, ...],
        key: JobKey | None,
        pace: Callable[[int], None],
        cancelled: Callable[[], bool],
        told: Callable[[int, int], None],
    ) -> Manifest:
        self.keys.append(key)
        self.places.append(places)
        self.begin(label.job_id, label.epoch)
        if self.ship_fault is not None:
            fault, self.ship_fault = self.ship_fault, None
            raise fault
        tree = {
            path.relative_to(directory).as_posix(): path.read_text()
            for path in sorted(directory.rglob("*"))
            if path.is_file()
        }
        told(0, 2048)
        while self.gate is not None and not self.gate.wait(0.001):
            if cancelled():
                raise ShipCancelled("no longer wanted")
        pace(sum(map(len, tree.values())))
        manifest = a_manifest(label.checkpoint_id, label.step, epoch=label.epoch, tier=label.tier)
        self.trees[label.checkpoint_id] = tree
        self.sealed.append(manifest)
        return manifest

    def restore(
        self,
        manifest: Manifest,
        into: Path,
        *,
        places: tuple[str, ...],
        key: JobKey | None,
        source: PeerPass | None,
        told: Callable[[int], None],
    ) -> Fetched:
        self.places.append(places)
        self.keys.append(key)
        if manifest.checkpoint_id in self.broken:
            raise self.broken[manifest.checkpoint_id]
        for name, text in self.trees.get(manifest.checkpoint_id, {"checkpoint/state": "saved"}).items():
            path = into / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            told(len(text))
        return Fetched()


def a_manifest(checkpoint_id: str, step: int, *, epoch: int = 0, tier: str = "app") -> Manifest:
    """Of a run before those that tests start, unless they say so."""
    return Manifest(
        checkpoint_id=checkpoint_id,
        job_id="job-1",
        epoch=epoch,
        step=step,
        progress=0.5,
        tier=tier,
        parent=None,
        created_s=0.0,
        files=(),
        block_size_bytes=1,
        total_bytes=10,
        new_bytes=5,
    )
