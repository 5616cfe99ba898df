"""Where a run goes on from: the newest sealed checkpoint of its job that can be read, byte for byte."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gpunion.agent.checkpoints.job_directory import move_in
from gpunion.agent.checkpoints.whole_guest import bring_in, check_dump
from gpunion.agent.dependencies import Fetched, World
from gpunion.agent.run_records.notes import job_key
from gpunion.agent.run_records.preparing import PreparingBoard
from gpunion.domain.ids import RunId
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.system_tier import Tier
from gpunion.ports.runtime import GuestPaths
from gpunion.vault.manifest import (
    BadManifest,
    CorruptBlock,
    Manifest,
    MissingBlock,
    OldEpoch,
    UnknownCheckpoint,
)

OUTPUT_TIER = "output"
APP_TIER = "app"
# A restore to which nothing has come for so long is not waited for as one that goes on.
STALLED_S = 300.0
CHECKPOINT_PART, OUTPUT_PART = "checkpoint", "output"


class NothingToRestore(Exception):
    """A checkpoint was promised and none can be read. Starting over would lose acknowledged work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    manifest: Manifest | None
    skipped: tuple[str, ...] = ()  # newer ones that could not be read, each with its trouble
    dump: Path | None = None  # where it is, of one that is a whole guest
    fetched: Fetched = field(default_factory=Fetched)


class _Telling:
    """How far a restore is, for people and for the coordinator, which waits for as long as it goes on."""

    def __init__(self, board: PreparingBoard, run_id: RunId, total_bytes: int) -> None:
        self._board, self._run_id, self._total_bytes = board, run_id, max(1, total_bytes)
        self._came_bytes = 0
        self._lock = threading.Lock()
        self(0)

    def __call__(self, came_bytes: int) -> None:
        with self._lock:
            self._came_bytes += came_bytes
            done = min(1.0, self._came_bytes / self._total_bytes)
            self._board.say(self._run_id, "fetching its state", done, lasts_s=STALLED_S)


def candidates(world: World, order: StartRun) -> list[Manifest]:
    """Newest first. The coordinator may not know of the newest: its report can be lost, the seal cannot."""
    # A job whose dumps were given up goes on from what its program saved.
    # So does a session where a dump is of no use: its program saved into the directories that went along.
    whole = _brings_back_whole(order) or order.session is not None
    unfit = {OUTPUT_TIER} if whole else {OUTPUT_TIER, Tier.SYSTEM}
    vault = world.vault_of(order.places, job_key(order.job_id, order.vault_key))
    kept = vault.manifests(order.job_id)
    _check_unused(order, kept)
    sealed = [manifest for manifest in kept if manifest.tier not in unfit]
    sealed = [manifest for manifest in sealed if manifest.checkpoint_id not in order.spoiled]
    if order.seat is not None:  # the others of a gang go on from this one, so a newer one is of no use
        sealed = [manifest for manifest in sealed if manifest.checkpoint_id == order.restore]
    sealed.sort(key=lambda manifest: (manifest.step >= order.restore_step, manifest.epoch, manifest.step))
    sealed.reverse()
    if order.restore is not None and not any(found.step >= order.restore_step for found in sealed):
        with contextlib.suppress(UnknownCheckpoint, BadManifest):
            vault.get(order.job_id, order.restore)  # a place of several may be away that has it: a fault
    if not sealed and order.restore is not None:
        raise NothingToRestore(
            f"the vault has no readable checkpoint of {order.job_id}; {order.restore} was promised"
        )
    return sealed


def _brings_back_whole(order: StartRun) -> bool:
    return order.whole or order.tier is Tier.SYSTEM


def _check_unused(order: StartRun, kept: Iterable[Manifest]) -> None:
    """Nothing is sealed of a run before it begins, unless there was another of its number, which a
    coordinator put back from a backup does not know of. Saves of the two would have the same names."""
    newest = max((manifest.epoch for manifest in kept), default=0)
    if newest >= order.epoch:
        raise OldEpoch(f"epoch {order.epoch} of {order.job_id}: epoch {newest} has begun and saved")


def _not_there(order: StartRun, sealed: list[Manifest]) -> list[str]:
    """What was promised, where only older ones are left: nobody goes on from those without a word."""
    if order.restore is None or not sealed or sealed[0].step >= order.restore_step:
        return []
    return [f"{order.restore}: it is not in the vault, or what it consists of cannot be read there"]


def restore_newest(
    world: World, order: StartRun, sealed: list[Manifest], paths: GuestPaths, cancelled: Callable[[], bool]
) -> Restored:
    """Blocks; called from a thread. Again after a crash: what was there before is replaced."""
    skipped = _not_there(order, sealed)
    key = job_key(order.job_id, order.vault_key)
    for manifest in sealed:
        landing = world.spool(order.run_id) / "restore"
        landing.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if cancelled():
            break
        try:
            whole = manifest.tier == Tier.SYSTEM and _brings_back_whole(order)
            told = _Telling(world.preparing, order.run_id, manifest.total_bytes)
            fetched = world.restore(
                manifest, landing, places=order.places, key=key, source=order.source, told=told
            )
            if whole:
                check_dump(landing)
        except (CorruptBlock, MissingBlock, BadManifest, UnknownCheckpoint) as fault:
            skipped.append(f"{manifest.checkpoint_id}: {fault}")
            continue
        move_in(landing / CHECKPOINT_PART, paths.checkpoint_dir)
        move_in(landing / OUTPUT_PART, paths.output_dir)
        dump = bring_in(landing, world.spool(order.run_id), paths) if whole else None
        shutil.rmtree(landing, ignore_errors=True)
        return Restored(manifest=manifest, skipped=tuple(skipped), dump=dump, fetched=fetched)
    if sealed and not cancelled():
        raise NothingToRestore(f"no checkpoint of {order.job_id} can be read ({'; '.join(skipped)})")
    return Restored(manifest=None)
