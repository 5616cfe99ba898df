"""Bringing a guest to life: fence the vault, fetch the code, restore, limit, start."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from gpunion.agent.bundles import BUNDLE_LIMIT_BYTES, BadBundle, check_digest, unpack
from gpunion.agent.restoring import NothingToRestore, candidates, restore_newest
from gpunion.agent.threads import in_own_thread
from gpunion.agent.world import World
from gpunion.domain.events import GuestStarted
from gpunion.domain.ids import CheckpointId
from gpunion.domain.orders import StartRun
from gpunion.ports.coordinator_link import LinkFault
from gpunion.ports.runtime import GuestSpec, RuntimeFault
from gpunion.ports.vault import VaultFault

# A coordinator that restarts is back within seconds; a start may wait that long for the code.
FETCH_TRIES = 5
FETCH_WAIT_S = 1.0

log = structlog.get_logger()


class StartTrouble(Exception):
    """Why the guest was not started, in words for the job's user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    order: StartRun
    limit: Callable[[], Awaitable[None]]  # puts the newest limits on the prepared guest
    cancelled: Callable[[], bool]


async def start_guest(world: World, start: Start) -> GuestStarted:
    try:
        return await _start(world, start)
    except (StartTrouble, BadBundle, NothingToRestore, RuntimeFault, VaultFault, LinkFault) as trouble:
        raise StartTrouble(str(trouble) or type(trouble).__name__) from trouble
    except OSError as error:
        raise StartTrouble(f"this machine's disk: {error.strerror or error}") from error


async def _start(world: World, start: Start) -> GuestStarted:
    order = start.order
    began_s = world.clock.now_s()
    # From here on nothing of an earlier epoch becomes durable any more: this run owns the job's state.
    await in_own_thread(lambda: world.vault.begin(order.job_id, order.epoch))
    code = await _code(world, order)
    sealed = await in_own_thread(lambda: candidates(world, order))
    spec = GuestSpec(
        run_id=order.run_id,
        job_id=order.job_id,
        epoch=order.epoch,
        command=order.command,
        environment=dict(order.environment),
        gpu_indices=order.grant.gpu_indices,
        memory_bytes=order.grant.memory_bytes,
        cpus=order.grant.cpus,
        resume=bool(sealed),
        work_source=None if code is None else str(code),
    )
    paths = await world.runtime.prepare(spec)
    await asyncio.to_thread(world.notebook.write, order, paths)
    restored = await in_own_thread(lambda: restore_newest(world, order, sealed, paths, start.cancelled))
    for skipped in restored.skipped:
        log.error("checkpoint_unreadable", run=order.run_id, trouble=skipped)
    await start.limit()
    # Right before the start, and the runtime looks once more: the owner's kill wins every race.
    if start.cancelled() or world.owner_has_killed():
        raise StartTrouble("it was ended before it began")
    await world.runtime.start(spec)
    await asyncio.to_thread(shutil.rmtree, world.spool(order.run_id), True)
    manifest = restored.manifest
    return GuestStarted(
        run_id=order.run_id,
        restored=None if manifest is None else CheckpointId(manifest.checkpoint_id),
        resumed_step=0 if manifest is None else manifest.step,
        restore_s=world.clock.now_s() - began_s,
    )


async def _code(world: World, order: StartRun) -> Path | None:
    if order.bundle is None:
        return None
    spool = world.spool(order.run_id)
    await asyncio.to_thread(shutil.rmtree, spool, True)
    spool.mkdir(mode=0o700, parents=True)
    file = spool / "bundle"
    for tries_left in reversed(range(FETCH_TRIES)):
        try:
            await world.link.fetch_bundle(order.bundle, file, BUNDLE_LIMIT_BYTES)
            break
        except LinkFault as fault:
            if not fault.temporary or not tries_left:
                raise
            await asyncio.sleep(FETCH_WAIT_S)
    await asyncio.to_thread(check_digest, file, order.bundle)
    await asyncio.to_thread(unpack, file, spool / "code")
    return spool / "code"
