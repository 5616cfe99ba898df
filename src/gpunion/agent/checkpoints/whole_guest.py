"""Tier `system` on an agent: a guest is dumped whole and shipped, and brought back from what was shipped.

A checkpoint of this tier holds the dump and, cut while the guest stood still, all of its directories: what
its processes have open there must be as they left it.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from gpunion.agent.checkpoints.job_directory import move_in
from gpunion.agent.dependencies import World
from gpunion.agent.program.messages import (
    ASIDE_FILE,
    NOTICE_FILE,
    REQUEST_FILE,
    read_reached,
)
from gpunion.agent.run_records.notes import RunNote
from gpunion.agent.tasks import in_own_thread
from gpunion.domain.ids import CheckpointId
from gpunion.domain.protocol.effects import AskToSave
from gpunion.domain.protocol.events import GuestSaved
from gpunion.domain.system_tier import Tier
from gpunion.limits import checked_id
from gpunion.ports.checkpointer import DumpRefused
from gpunion.ports.runtime import GuestPaths
from gpunion.vault.manifest import BadManifest, VaultFault
from gpunion.vault.transfer.snapshot import cut

# Beside the two parts that every checkpoint has.
DUMP_PART, SCRATCH_PART, CONTROL_PART = "dump", "scratch", "control"
CHECKPOINT_PART, OUTPUT_PART = "checkpoint", "output"

# A guest stands still meanwhile; one that takes longer is better saved by its program.
DUMP_LIMIT_S = 60.0
# One that is parked stands still anyway, with what it had on its GPU to be written as well.
PARKED_DUMP_LIMIT_S = 300.0
# Of a notice. The rest is for sending it, or for its program to save itself if this fails.
NOTICE_SHARE = 0.5
# From its last save to its end. Nobody ended it: then that save came too late, and it goes on.
HOLD_LIMIT_S = 5.0


def dump_place(world: World, run_id: str, checkpoint_id: str) -> Path:
    return world.spool(run_id) / f"whole-{checked_id(checkpoint_id)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    checkpoint_id: CheckpointId
    by_s: float | None
    final: bool = True
    parked: bool = False  # it stands still, has nothing on a GPU, and is left so whatever happens

    @classmethod
    def asked_by(cls, effect: AskToSave) -> Dump:
        return cls(checkpoint_id=effect.checkpoint_id, by_s=effect.by_s, final=effect.final)


async def dump_guest(world: World, note: RunNote, effect: Dump) -> GuestSaved:
    """The guest stands still afterwards if this was its last save. DumpRefused: it goes on.

    Not cut short by a cancellation: what was begun is ended, and undone."""
    work = asyncio.ensure_future(_dump_guest(world, note, effect))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        with contextlib.suppress(DumpRefused):
            await work
            await let_go(world, note.run_id)
            await asyncio.to_thread(
                shutil.rmtree, dump_place(world, note.run_id, effect.checkpoint_id), ignore_errors=True
            )
        raise


async def let_go(world: World, run_id: str) -> None:
    if world.checkpointer is not None:
        await world.checkpointer.release(run_id)


def check_dump(landing: Path) -> None:
    """BadManifest: what was saved is no whole guest, or names another place of this machine as one."""
    dump = landing / DUMP_PART
    if dump.is_symlink() or not dump.is_dir():
        raise BadManifest("it was saved as a whole guest and has no dump of one")


def bring_in(landing: Path, spool: Path, paths: GuestPaths) -> Path:
    """Lay a restored checkpoint of this tier out for its run; returns where the dump is. Blocks."""
    dump = spool / "dump"
    shutil.rmtree(dump, ignore_errors=True)
    shutil.move(landing / DUMP_PART, dump)
    move_in(landing / SCRATCH_PART, paths.scratch_dir)
    move_in(landing / CONTROL_PART, paths.control_dir)
    for stale in (
        REQUEST_FILE,
        NOTICE_FILE,
        ASIDE_FILE,  # one that had stepped aside comes back; its answer stays until it has
    ):  # what was asked of it elsewhere, and by when
        (paths.control_dir / stale).unlink(missing_ok=True)
    return dump


async def _dump_guest(world: World, note: RunNote, effect: Dump) -> GuestSaved:
    checkpointer = world.checkpointer
    if checkpointer is None:
        raise DumpRefused("guests of this machine's runtime cannot be dumped whole")
    began_s = world.clock.now_s()
    limit_s = _limit_s(effect, began_s)
    if limit_s <= 0:
        raise DumpRefused("no time is left for it")
    place = dump_place(world, note.run_id, effect.checkpoint_id)
    await asyncio.to_thread(_clear_older, world.spool(note.run_id))
    await checkpointer.dump(note.run_id, place / DUMP_PART, limit_s=limit_s, parked=effect.parked)
    reached = await _cut_while_still(world, note, effect, began_s + limit_s)
    if not effect.final:
        await checkpointer.release(note.run_id)
    return GuestSaved(
        run_id=note.run_id,
        checkpoint_id=effect.checkpoint_id,
        step=reached[0],
        progress=reached[1],
        stall_s=0.0 if effect.parked else world.clock.now_s() - began_s,  # one that is parked stands anyway
        tier=Tier.SYSTEM,
        size_bytes=await asyncio.to_thread(_size_bytes, place) if effect.final else 0,
    )


def _limit_s(effect: Dump, now_s: float) -> float:
    most_s = PARKED_DUMP_LIMIT_S if effect.parked else DUMP_LIMIT_S
    return most_s if effect.by_s is None else min(most_s, NOTICE_SHARE * (effect.by_s - now_s))


def _size_bytes(place: Path) -> int:
    return sum(path.lstat().st_size for path in place.rglob("*") if path.is_file())


async def _cut_while_still(world: World, note: RunNote, effect: Dump, until_s: float) -> tuple[int, float]:
    place = dump_place(world, note.run_id, effect.checkpoint_id)
    try:
        await in_own_thread(lambda: _cut(world, note, place, effect.final, until_s))
        reached = await asyncio.to_thread(read_reached, world.control, note.paths)
    except (VaultFault, OSError) as fault:
        await let_go(world, note.run_id)
        await in_own_thread(lambda: shutil.rmtree(place, ignore_errors=True))
        raise DumpRefused(f"its files could not be set aside: {fault}") from fault
    return reached.step, reached.progress


def _cut(world: World, note: RunNote, place: Path, final: bool, until_s: float) -> None:
    """One that goes on writes into its files: they are copied. One that has to go leaves them."""
    paths = note.paths
    parts = {
        CHECKPOINT_PART: paths.checkpoint_dir,
        OUTPUT_PART: paths.output_dir,
        SCRATCH_PART: paths.scratch_dir,
        CONTROL_PART: paths.control_dir,
    }
    for part, source in parts.items():
        cut(
            source,
            place / part,
            files=None,
            still=final,
            cancelled=lambda: world.clock.now_s() > until_s,
        )


def _clear_older(spool: Path) -> None:
    for older in spool.glob("whole-*"):
        shutil.rmtree(older, ignore_errors=True)
