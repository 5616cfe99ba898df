"""Has states lie ready on this machine ahead of their jobs: in the background, at the rate that was granted.

A hint, so nothing here fails loudly: what could not be fetched is fetched when its job comes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any
from weakref import WeakValueDictionary

import structlog

from gpunion.agent.checkpoints.directly import DirectSource
from gpunion.agent.checkpoints.restore import OUTPUT_TIER
from gpunion.agent.checkpoints.shipping import Cancelled, pace_of
from gpunion.agent.dependencies import World
from gpunion.agent.machine.caps import both
from gpunion.agent.tasks import in_own_thread
from gpunion.domain.ids import JobId
from gpunion.domain.protocol.events import StateFetched
from gpunion.domain.protocol.orders import StageState
from gpunion.text import by_number
from gpunion.vault.manifest import Manifest, Vault, VaultFault
from gpunion.vault.ready import ReadyFault, ReadyStates

# How often a fetch looks whether the machine is still lent, in blocks of 4 MiB.
LOOK_EVERY = 4

# A last save that takes longer than this is not followed to its end: its job may have gone elsewhere, and
# the other machine serves only so many.
FOLLOW_MOST_S = 600.0

log = structlog.get_logger()


class Stager:
    """One fetch a job. `lending`: nothing is fetched for guests of a machine whose owner wants it."""

    def __init__(self, world: World, ready: ReadyStates, lending: Callable[[], bool]) -> None:
        self._world = world
        self._ready = ready
        self._lending = lending
        self._under_way: dict[JobId, tuple[StageState, Cancelled]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._locks: WeakValueDictionary[JobId, asyncio.Lock] = WeakValueDictionary()

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def fetch(self, order: StageState) -> None:
        """The same order again, while it is being followed: nothing."""
        current = self._under_way.get(order.job_id)
        if current is not None and current[0] == order:
            return
        self.break_off(order.job_id)
        cancelled = Cancelled()
        self._under_way[order.job_id] = (order, cancelled)
        self._task(self._fetch(order, cancelled))

    def break_off(self, job_id: JobId) -> None:
        """Its job is here, or will not come. What has arrived stays."""
        current = self._under_way.pop(job_id, None)
        if current is not None:
            current[1].ask()

    def drop(self, job_id: JobId) -> None:
        self.break_off(job_id)
        self._task(self._drop(job_id))

    def stop(self) -> None:
        for job_id in list(self._under_way):
            self.break_off(job_id)

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drop(self, job_id: JobId) -> None:
        """Not while a fetch that was broken off puts down its last block: that would stay for ever."""
        async with self._one_by_one(job_id):
            await asyncio.to_thread(self._ready.drop, job_id)

    def _one_by_one(self, job_id: JobId) -> asyncio.Lock:
        return self._locks.setdefault(job_id, asyncio.Lock())

    async def _fetch(self, order: StageState, cancelled: Cancelled) -> None:
        fetched: StateFetched | None = None
        try:
            async with self._one_by_one(order.job_id):
                fetched = await in_own_thread(lambda: self._bring(order, cancelled))
        except (VaultFault, ReadyFault, OSError) as trouble:
            log.info("state_not_fetched_ahead", job=order.job_id, trouble=str(trouble))
        if self._under_way.get(order.job_id, (None, None))[1] is cancelled:
            del self._under_way[order.job_id]
        if fetched is not None and not cancelled():
            self._world.post(fetched)

    def _bring(self, order: StageState, cancelled: Cancelled) -> StateFetched | None:
        """None where it was broken off or is not to be had here. Blocks."""
        vault, job_id = self._world.vault_of(order.places), order.job_id
        manifest = _newest(vault, job_id)
        if manifest is None or not self._ready.make_room(job_id, manifest.total_bytes):
            return None
        names = [name for entry in manifest.files for name in entry.blocks]
        fetched_bytes = 0
        with DirectSource(self._world.peers, self._ready, job_id, order.source) as direct:
            with vault.hold(job_id, manifest.checkpoint_id):
                # In a notice the wire of the machine it leaves is for what it saves: not for this.
                first = None if order.follow else direct
                if order.base:
                    fetched_bytes += self._have(order, names, vault, first, cancelled)
                if not cancelled():
                    self._ready.keep_only(job_id, set(names))
            if order.follow:
                # On the heels of a last save. Should that come to nothing, this was in vain.
                until_s = time.monotonic() + FOLLOW_MOST_S
                names_told = direct.names(lambda: cancelled() or time.monotonic() > until_s)
                fetched_bytes += self._have(order, names_told, vault, None, cancelled)
        if cancelled():
            return None
        return StateFetched(
            job_id=job_id,
            epoch=order.epoch,
            checkpoint_id=order.checkpoint_id,
            fetched_bytes=fetched_bytes,
            direct_bytes=direct.direct_bytes,
            trouble=direct.trouble,
        )

    def _have(
        self,
        order: StageState,
        names: Iterable[str],
        vault: Vault,
        direct: DirectSource | None,
        cancelled: Cancelled,
    ) -> int:
        """Each of these ready here; how many bytes came for it."""
        pace = both(pace_of(order.rate_bps, cancelled), self._world.caps, cancelled)
        fetched_bytes = 0
        for number, name in enumerate(names):
            if number % LOOK_EVERY == 0 and not self._lending():
                cancelled.ask()
            if cancelled():
                break
            if not self._ready.lacking(order.job_id, [name]):
                continue
            came_bytes = None if direct is None else direct.keep(name)
            if came_bytes is None:
                data = vault.read_block(name)
                self._ready.put(order.job_id, name, data)
                came_bytes = len(data)
            fetched_bytes += came_bytes
            pace(came_bytes)
        return fetched_bytes


def _newest(vault: Vault, job_id: str) -> Manifest | None:
    """Of those that can be read here: a job with a key is not staged."""
    fit = [m for m in vault.manifests(job_id) if m.tier != OUTPUT_TIER and m.sealed is None]
    return max(
        fit,
        key=lambda manifest: (manifest.epoch, manifest.step, by_number(manifest.checkpoint_id)),
        default=None,
    )
