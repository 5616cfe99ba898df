"""Modelled programs whose window ends, or whose memory does not fit."""

from __future__ import annotations

import pytest

from gpunion.domain.ids import CheckpointId, NodeId, RunId
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.resources import GIB, Capacity, Gpu
from gpunion.sim.kernel import Kernel
from gpunion.sim.machine.runtime import GuestRuntime, pace_of
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box
from gpunion.sim.program.clocks import Clock
from gpunion.sim.program.process import DOES_NOT_FIT, SAVED_RUN_ME_AGAIN
from gpunion.sim.scenario.values import MemoryPhase, Program
from tests.builders.values import a_start
from tests.unit.sim.test_guests import Heard, a_process

PROGRAM = Program(steps=1000, step_s=1.0, boot_s=5.0, capture_s=4.0)


def test_a_program_saves_itself_and_is_gone_before_its_window_ends() -> None:
    kernel, heard = Kernel(), Heard()
    process = a_process(kernel, heard, PROGRAM)
    process.window(100.0)
    kernel.run(99.0)
    assert heard.exits == [SAVED_RUN_ME_AGAIN]
    assert process.step == 90  # the rest is coming up, the save and a second to spare


def test_a_window_that_is_lifted_or_moved_counts_as_told_last() -> None:
    kernel, heard = Kernel(), Heard()
    process = a_process(kernel, heard, PROGRAM)
    process.window(100.0)
    kernel.at(50.0, lambda: process.window(None))
    kernel.run(500.0)
    assert heard.exits == []
    process.window(600.0)
    kernel.run(600.0)
    assert heard.exits == [SAVED_RUN_ME_AGAIN]


def test_a_program_that_ignores_windows_works_on() -> None:
    kernel, heard = Kernel(), Heard()
    process = a_process(kernel, heard, Program(steps=1000, step_s=1.0, heeds_windows=False))
    process.window(100.0)
    kernel.run(200.0)
    assert heard.exits == []


def test_a_program_tells_its_pace_and_what_its_last_save_took() -> None:
    kernel, heard = Kernel(), Heard()
    process = a_process(kernel, heard, PROGRAM, speed=2.0, step=100)
    kernel.at(25.0, lambda: process.ask_to_save(CheckpointId("c1"), final=False, slowness=2.0))
    kernel.run(60.0)
    seen = process.seen()
    assert (seen.steps, seen.step_s, seen.begin_s, seen.save_s) == (94, 0.5, 5.0, 8.0)


def test_saves_can_grow_and_answers_come_late() -> None:
    kernel, heard = Kernel(), Heard()
    program = Program(steps=1000, step_s=1.0, boot_s=0.0, capture_s=2.0, save_growth=0.5, answers_after_s=3.0)
    process = a_process(kernel, heard, program)
    for number in (1, 2):
        kernel.at(
            100.0 * number,
            lambda number=number: process.ask_to_save(  # type: ignore[misc]
                CheckpointId(f"c{number}"), final=False, slowness=1.0
            ),
        )
    kernel.run(300.0)
    assert [stall_s for _, _, stall_s in heard.saved] == [5.0, 6.0]


def test_a_program_that_needs_more_memory_than_there_is_ends_where_it_does() -> None:
    kernel = Kernel()
    phases = (
        MemoryPhase(from_share=0.0, gpu_bytes=10 * GIB),
        MemoryPhase(from_share=0.5, gpu_bytes=30 * GIB),
    )
    program = Program(steps=100, step_s=1.0, boot_s=0.0, memory=phases)
    gpus = (
        Gpu(index=0, model="slice", memory_bytes=20 * GIB),
        Gpu(index=1, model="a", memory_bytes=40 * GIB),
    )
    capacity = Capacity(gpus=gpus, cpus=8.0, memory_bytes=GIB, uplink_bps=1e9)
    runtime = GuestRuntime(kernel, Clock(), NodeId("alpha"), capacity, Watch())
    ended: list[Box] = []
    runtime.on_exit = ended.append
    for number, index in enumerate((0, 1), start=1):
        order: StartRun = a_start(f"job-{number}-e1", gpu=index)
        box = runtime.prepare(order)
        assert box is not None
        runtime.start(box, program, 0)
        runtime.limit(box.run_id, 1e6, None)
    kernel.run(60.0)
    assert [(box.run_id, box.exit_code) for box in ended] == [("job-1-e1", DOES_NOT_FIT)]
    kernel.run(200.0)
    assert ended[1].exit_code == 0
    process = ended[0].process
    assert process is not None
    assert process.seen().short_of_memory
    assert process.seen().peak_bytes == 30 * GIB


def test_the_pace_of_a_run_is_drawn_from_its_name_alone() -> None:
    steady, noisy = Program(steps=1, step_s=1.0), Program(steps=1, step_s=1.0, noise=0.3)
    assert pace_of(RunId("a-e1"), steady) == 1.0
    assert pace_of(RunId("a-e1"), noisy) == pace_of(RunId("a-e1"), noisy) != pace_of(RunId("a-e2"), noisy)
    paces = [pace_of(RunId(f"a-e{number}"), noisy) for number in range(2000)]
    assert sum(paces) / len(paces) == pytest.approx(1.0, abs=0.03)
