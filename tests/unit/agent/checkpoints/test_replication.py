"""Copies to a job's other places: who waits, what is tried again, and what a restart goes on with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from gpunion.agent.checkpoints import replication as replicating
from gpunion.agent.checkpoints.replication import Replicator
from gpunion.agent.checkpoints.shipping import Cancelled
from gpunion.vault.manifest import VaultUnavailable
from gpunion.vault.replicas import Completed
from tests.unit.agent.fakes import until

PLACES = ("bucket", "attic")


class Copier:
    """Says what the test tells it to, one answer after the other; the last one from then on."""

    def __init__(self, *answers: Completed | Exception) -> None:
        self.answers = list(answers) or [Completed()]
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def complete(
        self,
        job_id: str,
        places: tuple[str, ...],
        *,
        pace: Callable[[int], None],
        cancelled: Callable[[], bool],
    ) -> Completed:
        self.asked.append((job_id, places))
        pace(1)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def a_replicator(copier: Copier, tmp_path: Path) -> Replicator:
    def pace(cancelled: Cancelled) -> Callable[[int], None]:
        return lambda sent_bytes: None

    return Replicator(copier, tmp_path / "replicas.json", pace)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicating, "AGAIN_S", 0.0)
    monkeypatch.setattr(replicating, "LOOK_S", 0.0)


async def run_until(replicator: Replicator, condition: Callable[[], object]) -> None:
    task = asyncio.create_task(replicator.run())
    await until(condition)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_was_sealed_is_copied_once_and_a_job_in_one_place_is_not(tmp_path: Path) -> None:
    copier = Copier(Completed(copied=("c1",), sent_bytes=1))
    replicator = a_replicator(copier, tmp_path)
    replicator.want("job-1", PLACES)
    replicator.want("job-2", ("bucket",))
    replicator.want("job-3", ())
    assert replicator.waiting == ("job-1",)
    await run_until(replicator, lambda: not replicator.waiting)
    assert copier.asked == [("job-1", PLACES)]


@pytest.mark.parametrize(
    "trouble", [VaultUnavailable("away"), OSError("disk"), Completed(troubles={"attic": "away"})]
)
async def test_a_place_that_is_away_is_tried_again(tmp_path: Path, trouble: Completed | Exception) -> None:
    copier = Copier(trouble, trouble, Completed())
    replicator = a_replicator(copier, tmp_path)
    replicator.want("job-1", PLACES)
    await run_until(replicator, lambda: not replicator.waiting)
    assert len(copier.asked) == 3


async def test_a_full_disk_and_trouble_nobody_thought_of_keep_no_copy_from_being_made(tmp_path: Path) -> None:
    copier = Copier(ZeroDivisionError("nobody thought of this"), Completed())
    replicator = a_replicator(copier, tmp_path / "no room, since this folder is not there")
    replicator.want("job-1", PLACES)
    await run_until(replicator, lambda: not replicator.waiting)
    assert len(copier.asked) == 2
    replicator.want("job-1", PLACES)
    (tmp_path / "no room, since this folder is not there").mkdir()
    replicator.want("job-1", PLACES)
    again = a_replicator(Copier(), tmp_path / "no room, since this folder is not there")
    assert again.waiting == ("job-1",)


async def test_what_is_sealed_while_copying_is_copied_after_it(tmp_path: Path) -> None:
    copier = Copier()
    replicator = a_replicator(copier, tmp_path)
    copier.meanwhile = lambda: replicator.want("job-1", PLACES)
    replicator.want("job-1", PLACES)
    await run_until(replicator, lambda: not replicator.waiting)
    assert len(copier.asked) == 2


async def test_an_agent_that_starts_again_goes_on_with_what_waits(tmp_path: Path) -> None:
    a_replicator(Copier(), tmp_path).want("job-1", PLACES)
    copier = Copier()
    again = a_replicator(copier, tmp_path)
    await run_until(again, lambda: not again.waiting)
    assert copier.asked == [("job-1", PLACES)]
    assert a_replicator(Copier(), tmp_path).waiting == ()
