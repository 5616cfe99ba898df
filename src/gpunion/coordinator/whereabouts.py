"""In which places a job's checkpoints lie now, as the places themselves say."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpunion.coordinator.asking import Ask
from gpunion.domain.jobs.job import Job
from gpunion.vault.locations import CAMPUS
from gpunion.vault.manifest import JobKey, NothingSavedYet, Vault, VaultFault


@dataclass(frozen=True, slots=True)
class Found:
    places: Mapping[str, list[str]]  # by checkpoint
    unknown: list[str]  # places that did not say


class Whereabouts:
    def __init__(self, open_vault: Callable[[tuple[str, ...]], Vault], ask: Ask) -> None:
        self._open_vault = open_vault
        self._ask = ask

    async def of(self, job: Job) -> Found:
        """All are asked at once: it takes as long as the slowest may, however many are away."""
        names = job.spec.places or (CAMPUS,)
        answers = await asyncio.gather(*(asyncio.to_thread(self._held_by, name, job) for name in names))
        places = defaultdict[str, list[str]](list)
        for name, held in zip(names, answers, strict=True):
            for checkpoint in held or ():
                places[checkpoint].append(name)
        unknown = [name for name, held in zip(names, answers, strict=True) if held is None]
        return Found(places, unknown)

    def _held_by(self, place: str, job: Job) -> set[str] | None:
        def question() -> set[str]:
            vault = self._open_vault((place,))
            if job.vault_key:
                vault = vault.keyed(JobKey(job_id=job.id, secret=bytes.fromhex(job.vault_key)))
            return {manifest.checkpoint_id for manifest in vault.manifests(job.id)}

        try:
            return self._ask(place, question)
        except NothingSavedYet:
            return set()
        except (VaultFault, OSError):
            return None
