"""Parking one guest and bringing it back, and how that went."""

from __future__ import annotations

import signal

import structlog

from gpunion.agent.checkpoints.whole_guest import Dump, dump_guest
from gpunion.agent.dependencies import World
from gpunion.agent.machine.parking import NotParked, NotUnparked
from gpunion.agent.program.gpu_release import AskedAside
from gpunion.agent.run_records.notes import RunNote
from gpunion.domain.ids import RunId
from gpunion.domain.protocol.effects import DumpParked
from gpunion.domain.protocol.events import (
    GuestNotDumped,
    GuestNotParked,
    GuestNotUnparked,
    GuestParked,
    GuestSaved,
    GuestUnparked,
)
from gpunion.domain.protocol.frames import SaveStage
from gpunion.ports.checkpointer import DumpRefused
from gpunion.ports.runtime import GuestPaths

log = structlog.get_logger()


async def parked(
    world: World, run_id: RunId, note: RunNote | None, by_s: float, beside: tuple[str, ...]
) -> GuestParked | GuestNotParked:
    """`note`: None where it is gone."""
    left_s, parker = by_s - world.clock.now_s(), world.parker
    if note is None or parker is None:
        detail = "guests cannot be parked here" if parker is None else "it is gone"
        return GuestNotParked(run_id=run_id, detail=detail)
    try:
        if left_s <= 0:
            await parker.give_up(run_id, _program(world, note))  # an agent before us may have begun
            return GuestNotParked(run_id=run_id, detail="it came too late")
        done = await parker.park(run_id, note.gpu_indices, beside, left_s, _program(world, note))
    except NotParked as trouble:
        return GuestNotParked(run_id=run_id, detail=str(trouble))
    except Exception as bug:
        log.exception("parking failed", run_id=run_id)
        return GuestNotParked(run_id=run_id, detail=f"a fault in the agent: {bug!r}")
    return GuestParked(run_id=run_id, moved_bytes=done.moved_bytes, took_s=done.took_s)


async def unparked(world: World, run_id: RunId, note: RunNote | None) -> GuestUnparked | GuestNotUnparked:
    if note is None or world.parker is None:
        return GuestNotUnparked(run_id=run_id, detail="guests that were parked cannot be brought back here")
    try:
        took_s = await world.parker.unpark(run_id, _program(world, note))
    except NotUnparked as trouble:
        return GuestNotUnparked(run_id=run_id, detail=str(trouble))
    except Exception as bug:
        log.exception("bringing a parked guest back failed", run_id=run_id)
        return GuestNotUnparked(run_id=run_id, detail=f"a fault in the agent: {bug!r}")
    return GuestUnparked(run_id=run_id, took_s=took_s)


async def parked_dumped(
    world: World, run_id: RunId, note: RunNote | None, effect: DumpParked
) -> GuestSaved | GuestNotDumped:
    """All of it as it stands, wherever its GPU memory is: in host memory. It is parked still, either way."""
    checkpoint_id = effect.checkpoint_id
    world.saves.say(run_id, checkpoint_id, SaveStage.DUMPING)
    try:
        if note is None:
            raise DumpRefused("it is gone")
        return await dump_guest(world, note, Dump(checkpoint_id=checkpoint_id, by_s=effect.by_s, parked=True))
    except DumpRefused as refused:
        log.warning("parked_guest_not_dumped", run=run_id, trouble=str(refused))
        return GuestNotDumped(run_id=run_id, checkpoint_id=checkpoint_id, why=str(refused))
    except Exception as bug:
        log.exception("dumping a parked guest failed", run_id=run_id)
        why = f"a fault in the agent: {bug!r}"
        return GuestNotDumped(run_id=run_id, checkpoint_id=checkpoint_id, why=why)
    finally:
        world.saves.clear(run_id, checkpoint_id)


async def brought_back(world: World, run_id: RunId, paths: GuestPaths) -> None:
    """It may have been dumped where it stood parked, with what was on its GPU in host memory: as soon as
    that is back it has no more memory than it was granted."""
    if world.parker is None:
        return
    try:
        await world.parker.came_back(run_id, _asked_aside(world, run_id, paths))
    except OSError as error:  # it lives, with a wider limit than it was granted: no reason to end it
        log.warning("memory_limit_stays_wide", run=run_id, trouble=str(error))


def _program(world: World, note: RunNote) -> AskedAside:
    return _asked_aside(world, note.run_id, note.paths)


def _asked_aside(world: World, run_id: RunId, paths: GuestPaths) -> AskedAside:
    async def nudge() -> None:
        await world.runtime.signal(run_id, signal.SIGUSR1)

    return AskedAside(world.control, paths.control_dir, nudge)
