"""Copies what was sealed in one place of a job to its other places, in the background.

The agent does it whose guest saved: it has reached the first place just now, and has the blocks at hand.
Which jobs wait is kept on the disk, so that a restart goes on with them. A place that is away is tried again.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from gpunion.agent.checkpoints.shipping import Cancelled
from gpunion.agent.tasks import in_own_thread
from gpunion.files import read_json, write_json
from gpunion.vault.manifest import VaultFault
from gpunion.vault.replicas import Replicas

AGAIN_S = 30.0
LOOK_S = 0.2

log = structlog.get_logger()


class Replicator:
    def __init__(
        self, replicas: Replicas, memory: Path, pace: Callable[[Cancelled], Callable[[int], None]]
    ) -> None:
        self._replicas = replicas
        self._memory = memory
        self._pace = pace
        self._lock = threading.Lock()
        self._waiting = _remembered(memory)
        self._wishes = dict.fromkeys(self._waiting, 0)  # how often each was asked for
        self._written = True
        self._cancelled = Cancelled()

    def want(self, job_id: str, places: tuple[str, ...]) -> None:
        """Something of it was sealed. From any thread."""
        if len(places) < 2:
            return
        with self._lock:
            self._wishes[job_id] = self._wishes.get(job_id, 0) + 1
            if self._waiting.get(job_id) != places or not self._written:
                self._waiting[job_id] = places
                self._write()

    @property
    def waiting(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._waiting)

    async def run(self) -> None:
        """Until cancelled."""
        tried_s: dict[str, float] = {}
        now_s = asyncio.get_running_loop().time
        try:
            while True:
                for job_id in self.waiting:
                    if now_s() - tried_s.get(job_id, -AGAIN_S) >= AGAIN_S:
                        done = await self._copy(job_id)
                        tried_s.pop(job_id, None)
                        if not done:
                            tried_s[job_id] = now_s()
                await asyncio.sleep(LOOK_S)
        finally:
            self._cancelled.ask()

    async def _copy(self, job_id: str) -> bool:
        """False: not all of it could be; what was asked for meanwhile is done in the next round."""
        with self._lock:
            places, wishes = self._waiting[job_id], self._wishes[job_id]
        if not await self._copied(job_id, places):
            return False
        with self._lock:
            if self._wishes[job_id] == wishes:
                del self._waiting[job_id], self._wishes[job_id]
                self._write()
        return True

    async def _copied(self, job_id: str, places: tuple[str, ...]) -> bool:
        try:
            pace = self._pace(self._cancelled)
            done = await in_own_thread(
                lambda: self._replicas.complete(job_id, places, pace=pace, cancelled=self._cancelled)
            )
        except (VaultFault, OSError) as trouble:
            log.warning("not_copied", job=job_id, places=places, trouble=str(trouble))
            return False
        except Exception:  # of one job's copies, not of the agent
            log.exception("not_copied", job=job_id, places=places)
            return False
        if done.copied:
            log.info("checkpoints_copied", job=job_id, copied=done.copied, sent_bytes=done.sent_bytes)
        for place, why_not in done.troubles.items():
            log.warning("not_copied", job=job_id, place=place, trouble=why_not)
        return not done.troubles

    def _write(self) -> None:
        record: dict[str, object] = {job: list(places) for job, places in self._waiting.items()}
        try:
            write_json(os.fspath(self._memory), record)
            self._written = True
        except OSError as error:
            # A full disk costs what a restart would go on with; what is sealed is sealed, and is copied.
            self._written = False
            log.warning("waiting_copies_not_written", file=str(self._memory), trouble=str(error))


def _remembered(memory: Path) -> dict[str, tuple[str, ...]]:
    found = read_json(os.fspath(memory)) or {}
    return {job: tuple(map(str, places)) for job, places in found.items() if isinstance(places, list)}
