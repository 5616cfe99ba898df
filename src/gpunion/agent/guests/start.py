"""Bringing a guest to life: fence the vault, have its image, fetch the code, restore, limit, start."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from gpunion.agent.checkpoints.job_directory import (
    Files,
    WorkTrouble,
    fetch_list,
    make_tree,
    move_in,
    read_file,
)
from gpunion.agent.checkpoints.restore import NothingToRestore, candidates, restore_newest
from gpunion.agent.checkpoints.shipping import DETAIL_LIMIT_CHARS
from gpunion.agent.checkpoints.written_elsewhere import begins
from gpunion.agent.dependencies import World
from gpunion.agent.guests.parked import brought_back
from gpunion.agent.machine.image_budget import NoRoom
from gpunion.agent.machine.images import ImageTrouble
from gpunion.agent.machine.packages import Environment, EnvironmentKeeper, EnvironmentTrouble
from gpunion.agent.program.piece import variables_of
from gpunion.agent.program.session_file import tell_restored_whole
from gpunion.agent.sessions.start import session_variables
from gpunion.agent.tasks import in_own_thread
from gpunion.domain.ids import CheckpointId
from gpunion.domain.jobs.gang import leader_of
from gpunion.domain.lockfile import LOCKFILE_LIMIT_BYTES
from gpunion.domain.protocol.events import GuestStarted
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.reasons.reason import Why
from gpunion.domain.system_tier import Tier
from gpunion.ports.checkpointer import RestoreRefused
from gpunion.ports.coordinator_link import LinkFault
from gpunion.ports.images import ImageFault
from gpunion.ports.runtime import GuestPaths, GuestSpec, RuntimeFault
from gpunion.vault.block_cache import CacheFault
from gpunion.vault.manifest import OldEpoch, VaultDenied, VaultFault, VaultFull, VaultUnavailable

log = structlog.get_logger()

MASTER_PORT = "29500"  # torchrun's own choice


class StartTrouble(Exception):
    """Why the guest was not started, in words for the job's user. `why`: it was not its program's fault."""

    def __init__(self, words: str, why: Why | None = None) -> None:
        super().__init__(words)
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    order: StartRun
    limit: Callable[[], Awaitable[None]]  # puts the newest limits on the prepared guest
    cancelled: Callable[[], bool]


async def start_guest(world: World, start: Start) -> GuestStarted:
    try:
        return await _start(world, start)
    except StartTrouble:
        raise
    except NoRoom as full:
        raise StartTrouble(str(full), Why.NO_ROOM_FOR_IMAGE) from full
    except EnvironmentTrouble as trouble:
        raise StartTrouble(str(trouble), Why.NO_ROOM_FOR_PACKAGES if trouble.no_room else None) from trouble
    except (VaultUnavailable, VaultDenied, VaultFull) as away:
        # No fault of the job's: it waits, and begins when its place is back or on a machine that reaches it.
        raise StartTrouble(str(away), Why.PLACE_NOT_REACHED) from away
    except OldEpoch as used:
        # Nor is this: the coordinator was put back from a backup, and numbers runs that there were already.
        raise StartTrouble(str(used), Why.EPOCH_USED) from used
    except NothingToRestore as lost:
        raise StartTrouble(str(lost), Why.SAVE_UNREADABLE) from lost
    except (
        ImageTrouble,
        ImageFault,
        WorkTrouble,
        CacheFault,
        RuntimeFault,
        VaultFault,
        LinkFault,
    ) as trouble:
        raise StartTrouble(str(trouble) or type(trouble).__name__) from trouble
    except OSError as error:
        raise StartTrouble(f"this machine's disk: {error.strerror or error}") from error
    finally:
        world.preparing.clear(start.order.run_id)


async def _start(world: World, start: Start) -> GuestStarted:
    order = start.order
    began_s = world.clock.now_s()
    # From here on nothing of an earlier epoch becomes durable any more: this run owns the job's state.
    await in_own_thread(lambda: world.vault_of(order.places).begin(order.job_id, order.epoch))
    world.replicate(order.job_id, order.places)  # whoever had it before may have died before copying all
    async with _image(world, start):
        return await _start_in_image(world, start, began_s)


@contextlib.asynccontextmanager
async def _image(world: World, start: Start) -> AsyncIterator[None]:
    """The image is here and stays here, until the guest's container holds it."""
    parcel = start.order.image
    if parcel is None:
        yield
    elif world.images is None:
        raise StartTrouble(f"guests run in no images here, and it asks for {parcel.image.ref}")
    else:
        async with world.images.held(parcel, start.order.run_id, start.cancelled):
            yield


async def _start_in_image(world: World, start: Start, began_s: float) -> GuestStarted:
    order = start.order
    files = None if order.bundle is None else await fetch_list(world, order.bundle)
    environment = await _environment(world, start, files)
    sealed = await in_own_thread(lambda: candidates(world, order))
    spec = GuestSpec(
        run_id=order.run_id,
        job_id=order.job_id,
        epoch=order.epoch,
        command=order.command,
        wrapper=order.wrapper,
        entrypoint=order.entrypoint,
        begins_in_work=bool(order.command) and order.bundle is not None,
        environment=_variables(order),
        gpu_indices=order.grant.gpu_indices,
        memory_bytes=order.grant.memory_bytes,
        disk_bytes=world.caps.disk_bytes,
        cpus=order.grant.cpus,
        network=order.grant.network,
        resume=bool(sealed),
        work_source=None,
        packages=None if environment is None else str(environment.place),
        image=None if order.image is None else order.image.image.ref,
    )
    paths = await world.runtime.prepare(spec)
    packages = "" if environment is None else environment.key
    await asyncio.to_thread(world.run_notes.write, order, paths, packages)
    if files is not None:
        await _bring_in(world, order, files, paths, start.cancelled)
    if environment is not None:
        await _have_packages(world, start, environment, paths)
    restored = await in_own_thread(lambda: restore_newest(world, order, sealed, paths, start.cancelled))
    for skipped in restored.skipped:
        log.error("checkpoint_unreadable", run=order.run_id, trouble=skipped)
    await start.limit()
    # Right before the start, and the runtime looks once more: the owner's kill wins every race.
    if start.cancelled() or world.owner_has_killed():
        raise StartTrouble("it was ended before it began")
    await asyncio.to_thread(begins, paths.root)
    await _bring_to_life(world, spec, restored.dump)
    if restored.dump is not None:
        await brought_back(world, order.run_id, paths)
        if order.session is not None:
            await asyncio.to_thread(tell_restored_whole, world.control, paths.control_dir)
    await in_own_thread(lambda: shutil.rmtree(world.spool(order.run_id), ignore_errors=True))
    manifest = restored.manifest
    return GuestStarted(
        run_id=order.run_id,
        restored=None if manifest is None else CheckpointId(manifest.checkpoint_id),
        resumed_step=0 if manifest is None else manifest.step,
        restore_s=world.clock.now_s() - began_s,
        tier=Tier.APP if restored.dump is None else Tier.SYSTEM,
        found_bytes=restored.fetched.found_bytes,
        direct_bytes=restored.fetched.direct_bytes,
        trouble=restored.fetched.trouble,
        passed_over=world.detours.why(order.places),
        unreadable="; ".join(restored.skipped)[:DETAIL_LIMIT_CHARS],
    )


async def _have_packages(world: World, start: Start, environment: Environment, paths: GuestPaths) -> None:
    if world.environments is not None:
        told = partial(
            world.preparing.say, start.order.run_id, f"installing the packages of {environment.name}"
        )
        told()
        await world.environments.have(environment, paths.work_dir, start.cancelled, told)


def _variables(order: StartRun) -> dict[str, str]:
    """The job's own; and of a gang, who it is among its members, in our words and in those of torchrun: they
    need an address at which the first member is reached, and only the job can know one."""
    own = dict(order.environment) | session_variables(order.session) | variables_of(order.subjob)
    if order.seat is None:
        return own
    size, rank = str(order.seat.size), str(order.seat.rank)
    ours = {
        "GPUNION_GANG_ID": leader_of(order.job_id, order.seat),
        "GPUNION_GANG_SIZE": size,
        "GPUNION_GANG_RANK": rank,
    }
    theirs = {"MASTER_PORT": MASTER_PORT, "WORLD_SIZE": size, "RANK": rank} if "MASTER_ADDR" in own else {}
    return theirs | own | ours


async def _bring_to_life(world: World, spec: GuestSpec, dump: Path | None) -> None:
    if dump is None:
        await world.runtime.start(spec)
        return
    try:
        if world.checkpointer is None:
            raise RestoreRefused("this machine's runtime cannot bring a whole guest back")
        await world.checkpointer.restore(spec, dump)
    except RestoreRefused as refused:
        raise StartTrouble(str(refused), Why.DUMP_REFUSED_THERE) from refused


async def _environment(world: World, start: Start, files: Files | None) -> Environment | None:
    """What is to be installed, known before any of it is here: its place is part of the guest's plan."""
    order = start.order
    if order.lockfile is None and order.packages is None:
        return None
    if world.environments is None:
        raise StartTrouble("guests of this machine run in an image; packages are not installed for them")
    if order.packages is not None:
        environment = world.environments.published(order.packages)
    else:
        environment = await _listed_in_directory(world, world.environments, start, files or ())
    world.environments.holds(order.run_id, environment.key)
    return environment


async def _listed_in_directory(
    world: World, keeper: EnvironmentKeeper, start: Start, files: Files
) -> Environment:
    lockfile = start.order.lockfile or ""
    entry = next((entry for entry in files if entry.path == lockfile), None)
    if entry is None or not stat.S_ISREG(entry.mode) or entry.size_bytes > LOCKFILE_LIMIT_BYTES:
        raise StartTrouble(f"the job's directory has no lockfile {lockfile}")
    return keeper.plan(lockfile, await read_file(world, entry, start.cancelled), files)


async def _bring_in(
    world: World, order: StartRun, files: Files, paths: GuestPaths, cancelled: Callable[[], bool]
) -> None:
    """Made beside the guest's directories and moved in, so that a cut leaves no half of it."""
    spool = world.spool(order.run_id)
    await in_own_thread(lambda: shutil.rmtree(spool, ignore_errors=True))
    spool.mkdir(mode=0o700, parents=True)
    tree = spool / "work"

    def told(done: float) -> None:
        world.preparing.say(order.run_id, "fetching its directory", done)

    await make_tree(world, files, tree, cancelled, told)
    await in_own_thread(lambda: move_in(tree, paths.work_dir))
