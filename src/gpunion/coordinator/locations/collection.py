"""Forgetting directories that no job needs any more, now and then, while everything else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from gpunion.domain.jobs.job import Job
from gpunion.vault.trees import Swept, Trees, TreesFault

# Directories are kept for a day after they were last asked for; an hour more does not matter.
SWEEP_EVERY_S = 3600.0

# As they are at that moment; None where a held job's record cannot be read: nobody knows what it needs.
Jobs = Callable[[], Iterable[Job] | None]

log = structlog.get_logger("gpunion.coordinator")


async def keep_sweeping(trees: Trees, jobs: Jobs, every_s: float = SWEEP_EVERY_S) -> None:
    while True:
        try:
            swept = await sweep(trees, jobs)
            if swept.trees or swept.blocks:
                log.info("swept", trees=swept.trees, blocks=swept.blocks, freed_bytes=swept.stored_bytes)
        except TreesFault as fault:
            log.error("not_swept", trouble=str(fault))
        await asyncio.sleep(every_s)


async def sweep(trees: Trees, jobs: Jobs) -> Swept:
    """A job that comes after this look has claimed its directory, which makes it too young to go."""
    needed = jobs()
    if needed is None:
        return Swept(trees=0, blocks=0, stored_bytes=0)
    return await asyncio.to_thread(trees.sweep, needed_by(needed))


def needed_by(jobs: Iterable[Job]) -> frozenset[str]:
    """A job that is over never runs again."""
    return frozenset(job.spec.bundle for job in jobs if job.spec.bundle is not None and not job.phase.over)
