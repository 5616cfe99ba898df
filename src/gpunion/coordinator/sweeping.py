"""Forgetting directories that no job needs any more, now and then, while everything else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

from gpunion.coordinator.campus import Campus
from gpunion.domain.job import Job
from gpunion.ports.trees import Swept, TreesFault

# Directories are kept for a day after they were last asked for; an hour more does not matter.
SWEEP_EVERY_S = 3600.0

log = structlog.get_logger("gpunion.coordinator")


async def keep_sweeping(campus: Campus, every_s: float = SWEEP_EVERY_S) -> None:
    while True:
        try:
            swept = await sweep(campus)
            if swept.trees or swept.blocks:
                log.info("swept", trees=swept.trees, blocks=swept.blocks, freed_bytes=swept.stored_bytes)
        except TreesFault as fault:
            log.error("not_swept", trouble=str(fault))
        await asyncio.sleep(every_s)


async def sweep(campus: Campus) -> Swept:
    """A job that comes after this look has claimed its directory, which makes it too young to go."""
    return await asyncio.to_thread(campus.trees.sweep, needed_by(campus.state.jobs.values()))


def needed_by(jobs: Iterable[Job]) -> frozenset[str]:
    """A job that is over never runs again."""
    return frozenset(job.spec.bundle for job in jobs if job.spec.bundle is not None and not job.phase.over)
