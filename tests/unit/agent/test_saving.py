"""A program is asked to save itself, and heard."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.protocol.events import (
    CheckpointNotShipped,
    GuestCouldNotSave,
    GuestExited,
    GuestSaved,
)
from gpunion.ports.runtime import ExitReason, RuntimeFault
from tests.unit.agent.fakes import FakeWorld, MemoryControl, until
from tests.unit.agent.guests import ask, save, started
from tests.unit.agent.values import RUN, a_checkpoint


async def test_a_program_is_asked_in_a_file_and_by_signal_and_its_answer_is_told(fake: FakeWorld) -> None:
    hands = await started(fake)
    hands.ask_to_save(ask(final=True, by_s=1060.0))
    await until(lambda: f"signal {RUN} {int(signal.SIGUSR1)}" in fake.journal)
    request = fake.control.read_json(fake.runtime.paths(RUN).control_dir, "request.json")
    assert request is not None
    assert (request["id"], request["final"], request["reason"]) == (a_checkpoint(1), True, "leaving")
    fake.clock.at_s += 2.0
    save(fake)
    await until(lambda: fake.posted)
    assert fake.posted == [
        GuestSaved(
            run_id=RUN, checkpoint_id=a_checkpoint(1), step=7, progress=0.5, stall_s=2.0, capture_s=2.0
        )
    ]


class FullControl(MemoryControl):
    """Has no room for the first message."""

    offered = 0

    def write_json(self, directory: Path, name: str, value: Mapping[str, object]) -> None:
        self.offered += 1
        if self.offered == 1:
            raise RuntimeFault("no room", temporary=True) from OSError(errno.ENOSPC, "no space left")
        super().write_json(directory, name, value)


@pytest.mark.parametrize("final", [False, True])
async def test_a_program_that_a_full_disk_kept_from_being_asked_did_not_keep_silent(
    fake: FakeWorld, final: bool
) -> None:
    hands = await started(fake)
    fake.world = hands._world = replace(fake.world, control=FullControl())
    hands.ask_to_save(ask(1, final=final))
    if final:  # there is no next one
        control_dir = fake.runtime.paths(RUN).control_dir
        await until(lambda: fake.world.control.read_json(control_dir, "request.json"))
        return
    await until(lambda: fake.posted)
    trouble = CheckpointTrouble.DISK_FULL
    assert fake.posted == [
        CheckpointNotShipped(run_id=RUN, checkpoint_id=a_checkpoint(1), trouble=trouble, detail="no room")
    ]


async def test_an_answer_to_an_earlier_request_is_not_taken_for_this_one(fake: FakeWorld) -> None:
    hands = await started(fake)
    hands.ask_to_save(ask(1))
    hands.ask_to_save(ask(2))
    save(fake, 1)
    await asyncio.sleep(0.15)
    assert fake.posted == []
    save(fake, 2, stall_s=0.25)
    await until(lambda: fake.posted)
    assert fake.posted == [
        GuestSaved(run_id=RUN, checkpoint_id=a_checkpoint(2), step=7, progress=0.5, stall_s=0.25)
    ]


async def test_what_a_program_says_of_why_it_could_not_save_is_told_once_for_each_reason(
    fake: FakeWorld,
) -> None:
    hands = await started(fake)
    hands.ask_to_save(ask(1, final=True))
    control_dir = fake.runtime.paths(RUN).control_dir
    odd = "out\x1b[2J of\nmemory \ud800"  # neither for a terminal nor for the wire
    for number, trouble, told in ((9, "of another", 0), (1, "no space left", 1), (1, odd, 2)):
        said = {"id": a_checkpoint(number), "trouble": trouble}
        fake.control.write_json(control_dir, "not-saved.json", said)
        await until(lambda told=told: len(fake.posted) == told)  # type: ignore[misc]
    save(fake, 1)
    await until(lambda: fake.of(GuestSaved))
    name = a_checkpoint(1)
    assert fake.posted[:2] == [
        GuestCouldNotSave(run_id=RUN, checkpoint_id=name, why="no space left"),
        GuestCouldNotSave(run_id=RUN, checkpoint_id=name, why="out [2J of memory"),
    ]


async def test_a_program_that_saves_and_leaves_at_once_is_heard_in_that_order(fake: FakeWorld) -> None:
    hands = await started(fake)
    hands.ask_to_save(ask(final=True))
    save(fake)
    fake.runtime.end(RUN, 85, ExitReason.EXITED)
    await until(lambda: fake.of(GuestExited))
    assert [type(event) for event in fake.posted] == [GuestSaved, GuestExited]
    exited = fake.posted[1]
    assert isinstance(exited, GuestExited)
    assert (exited.exit_code, exited.last_step, exited.cause) == (85, 7, None)
