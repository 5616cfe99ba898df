"""Has states lie ready on this machine ahead of their jobs: in the background, at the rate that was granted.

A hint, so nothing here fails loudly: what could not be fetched is fetched when its job comes.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import structlog

from gpunion.agent.caps import both
from gpunion.agent.restoring import OUTPUT_TIER
from gpunion.agent.shipping import Cancelled, pace_of
from gpunion.agent.threads import in_own_thread
from gpunion.agent.world import World
from gpunion.domain.events import StateFetched
from gpunion.domain.ids import JobId
from gpunion.domain.orders import StageState
from gpunion.ports.ready import ReadyFault, ReadyStates
from gpunion.ports.vault import Manifest, Vault, VaultFault

# How often a fetch looks whether the machine is still lent, in blocks of 4 MiB.
LOOK_EVERY = 4

log = structlog.get_logger()


class Stager:
    """One fetch a job. `lending`: nothing is fetched for guests of a machine whose owner wants it."""

    def __init__(self, world: World, ready: ReadyStates, lending: Callable[[], bool]) -> None:
        self._world = world
        self._ready = ready
        self._lending = lending
        self._under_way: dict[JobId, tuple[StageState, Cancelled]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

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
        self._task(asyncio.to_thread(self._ready.drop, job_id))

    def stop(self) -> None:
        for job_id in list(self._under_way):
            self.break_off(job_id)

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fetch(self, order: StageState, cancelled: Cancelled) -> None:
        try:
            fetched_bytes = await in_own_thread(lambda: self._bring(order, cancelled))
        except (VaultFault, ReadyFault, OSError) as trouble:
            log.info("state_not_fetched_ahead", job=order.job_id, trouble=str(trouble))
            fetched_bytes = None
        if self._under_way.get(order.job_id, (None, None))[1] is cancelled:
            del self._under_way[order.job_id]
        if fetched_bytes is not None and not cancelled():
            self._world.post(
                StateFetched(
                    job_id=order.job_id,
                    epoch=order.epoch,
                    checkpoint_id=order.checkpoint_id,
                    fetched_bytes=fetched_bytes,
                )
            )

    def _bring(self, order: StageState, cancelled: Cancelled) -> int | None:
        """Bytes that came, or None where it was broken off or is not to be had here. Blocks."""
        vault = self._world.vault_of(order.places)
        manifest = _newest(vault, order.job_id)
        if manifest is None or not self._ready.make_room(order.job_id, manifest.total_bytes):
            return None
        names = {name for entry in manifest.files for name in entry.blocks}
        lacking = self._ready.lacking(order.job_id, names)
        fetched_bytes = 0
        with vault.hold(order.job_id, manifest.checkpoint_id):
            for data in self._paced(order, cancelled, _blocks_of(vault, manifest, lacking)):
                fetched_bytes += len(data[1])
                self._ready.put(order.job_id, *data)
        if cancelled():
            return None
        self._ready.keep_only(order.job_id, names)
        return fetched_bytes

    def _paced(
        self, order: StageState, cancelled: Cancelled, blocks: Iterator[tuple[str, bytes]]
    ) -> Iterator[tuple[str, bytes]]:
        pace = both(pace_of(order.rate_bps, cancelled), self._world.caps, cancelled)
        for number in itertools.count():
            if number % LOOK_EVERY == 0 and not self._lending():
                cancelled.ask()
            block = None if cancelled() else next(blocks, None)
            if block is None:
                return
            yield block
            pace(len(block[1]))


def _newest(vault: Vault, job_id: str) -> Manifest | None:
    """Of those that can be read here: a job with a key is not staged."""
    fit = [m for m in vault.manifests(job_id) if m.tier != OUTPUT_TIER and m.sealed is None]
    return max(fit, key=lambda manifest: (manifest.epoch, manifest.step), default=None)


def _blocks_of(vault: Vault, manifest: Manifest, lacking: set[str]) -> Iterator[tuple[str, bytes]]:
    """In the order of the files: what is broken off can be gone on with."""
    for entry in manifest.files:
        for name in entry.blocks:
            if name in lacking:
                lacking.discard(name)
                yield name, vault.read_block(name)
