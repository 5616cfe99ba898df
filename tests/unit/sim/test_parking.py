"""The model of a parked guest: it stands still exactly as long as it is frozen."""

from __future__ import annotations

from gpunion.domain.ids import CheckpointId
from gpunion.sim.kernel import Kernel
from gpunion.sim.program.process import Process
from gpunion.sim.scenario.values import Program


def a_process(kernel: Kernel, saves: list[int], ends: list[int]) -> Process:
    program = Program(steps=100, step_s=1.0, boot_s=0.0, capture_s=1.0)
    return Process(
        kernel,
        program,
        speed=1.0,
        step=0,
        on_saved=lambda checkpoint, step, stall_s: saves.append(step),
        on_exit=ends.append,
    )


def test_a_frozen_process_makes_no_step_answers_nothing_and_ends_as_much_later() -> None:
    kernel, saves, ends = Kernel(), [], []  # type: ignore[var-annotated]
    process = a_process(kernel, saves, ends)
    kernel.run(10.0)
    process.freeze()
    process.ask_to_save(CheckpointId("c1"), final=False, slowness=1.0)
    kernel.run(60.0)
    assert (process.step, saves, ends) == (10, [], [])
    process.thaw()
    kernel.run(149.0)
    assert (process.step, ends) == (99, [])
    kernel.run(151.0)
    assert ends == [0]
