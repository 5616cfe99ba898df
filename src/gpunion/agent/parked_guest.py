"""Parking one guest and bringing it back, and how that went."""

from __future__ import annotations

import signal

import structlog

from gpunion.agent.asking_aside import AskedAside
from gpunion.agent.parking import NotParked, NotUnparked
from gpunion.agent.run_notes import RunNote
from gpunion.agent.world import World
from gpunion.domain.events import GuestNotParked, GuestNotUnparked, GuestParked, GuestUnparked
from gpunion.domain.ids import RunId

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


def _program(world: World, note: RunNote) -> AskedAside:
    async def nudge() -> None:
        await world.runtime.signal(note.run_id, signal.SIGUSR1)

    return AskedAside(world.control, note.paths.control_dir, nudge)
