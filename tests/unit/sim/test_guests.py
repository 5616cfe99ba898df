"""Modelled programs, their keeper, and the vault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.resources import GIB, Capacity, Gpu, Grant
from gpunion.sim.kernel import Kernel
from gpunion.sim.machine.runtime import FIRST_LEASE_S, GuestRuntime
from gpunion.sim.observer import Watch
from gpunion.sim.program.clocks import Clock
from gpunion.sim.program.process import Process
from gpunion.sim.scenario.values import Program
from gpunion.sim.vault import ModelVault, Sealed

RUN = RunId("job-e1")


class Heard:
    def __init__(self) -> None:
        self.saved: list[tuple[str, int, float]] = []
        self.exits: list[int] = []


def a_process(
    kernel: Kernel, heard: Heard, program: Program, *, speed: float = 1.0, step: int = 0
) -> Process:
    return Process(
        kernel,
        program,
        speed=speed,
        step=step,
        on_saved=lambda *saved: heard.saved.append(saved),
        on_exit=heard.exits.append,
    )


def test_a_program_ends_after_its_steps_at_the_speed_of_its_gpu() -> None:
    kernel, heard = Kernel(), Heard()
    a_process(kernel, heard, Program(steps=100, step_s=1.0, boot_s=2.0), speed=2.0, step=20)
    kernel.run(41.9)
    assert heard.exits == []
    kernel.run(42.1)
    assert heard.exits == [0]


def test_a_save_holds_the_program_up_and_tells_the_step_it_stands_at() -> None:
    kernel, heard = Kernel(), Heard()
    process = a_process(kernel, heard, Program(steps=100, step_s=1.0, boot_s=0.0, capture_s=5.0))
    kernel.at(10.5, lambda: process.ask_to_save(CheckpointId("c1"), final=False, slowness=2.0))
    kernel.run(109.9)
    assert heard.saved == [("c1", 10, 10.0)]
    assert heard.exits == []
    kernel.run(110.1)
    assert heard.exits == [0]


def test_a_final_save_ends_the_program_with_the_code_of_the_contract() -> None:
    kernel, heard = Kernel(), Heard()
    process = a_process(kernel, heard, Program(steps=100, step_s=1.0, boot_s=0.0))
    kernel.at(10.5, lambda: process.ask_to_save(CheckpointId("c1"), final=True, slowness=1.0))
    kernel.run(50.0)
    assert heard.saved == [("c1", 10, 1.0)]
    assert heard.exits == [85]


def test_asking_again_for_the_same_save_finds_the_answer() -> None:
    kernel, heard = Kernel(), Heard()
    process = a_process(kernel, heard, Program(steps=100, step_s=1.0, boot_s=0.0))
    for at_s in (10.0, 20.0):
        kernel.at(at_s, lambda: process.ask_to_save(CheckpointId("c1"), final=False, slowness=1.0))
    kernel.run(50.0)
    assert heard.saved == [("c1", 10, 1.0), ("c1", 10, 1.0)]


def test_a_program_may_ignore_both_saves_and_sigterm() -> None:
    kernel, heard = Kernel(), Heard()
    stubborn = Program(steps=100, step_s=1.0, boot_s=0.0, answers_saves=False, heeds_term=False)
    process = a_process(kernel, heard, stubborn)
    process.ask_to_save(CheckpointId("c1"), final=True, slowness=1.0)
    process.terminate()
    kernel.run(99.0)
    assert (heard.saved, heard.exits) == ([], [])
    assert process.step == 99


def test_a_program_may_fail() -> None:
    kernel, heard = Kernel(), Heard()
    a_process(kernel, heard, Program(steps=100, step_s=1.0, boot_s=0.0, exit_code=3, fails_at_step=7))
    kernel.run(50.0)
    assert heard.exits == [3]


def a_runtime(kernel: Kernel, clock: Clock | None = None) -> GuestRuntime:
    capacity = Capacity(
        gpus=(Gpu(index=0, model="m", memory_bytes=GIB),), cpus=4.0, memory_bytes=GIB, uplink_bps=1e9
    )
    return GuestRuntime(kernel, clock or Clock(), NodeId("node"), capacity, Watch())


def an_order() -> StartRun:
    return StartRun(
        run_id=RUN,
        job_id=JobId("job"),
        epoch=1,
        command=("train",),
        environment=(),
        bundle=None,
        grant=Grant(gpu_indices=(0,), cpus=1.0, memory_bytes=1),
    )


def start(runtime: GuestRuntime):
    box = runtime.prepare(an_order())
    assert box is not None
    runtime.start(box, Program(steps=1000, step_s=1.0), 0)
    return box


def test_the_keeper_ends_a_guest_at_its_limit_in_the_machines_own_time() -> None:
    kernel = Kernel()
    runtime = a_runtime(kernel, Clock(rate=0.5, offset_s=1000.0))
    runtime.limit(RUN, 1010.0, 1030.0)
    box = start(runtime)
    kernel.run(19.9)
    assert box.alive
    kernel.run(20.1)
    assert (box.alive, box.cause) == (False, EndReason.LEASE_ENDED)


def test_the_earlier_limit_counts_and_gives_the_cause() -> None:
    kernel = Kernel()
    runtime = a_runtime(kernel)
    box = start(runtime)
    runtime.limit(RUN, 100.0, 30.0)
    kernel.run(40.0)
    assert box.cause is EndReason.DEADLINE


def test_a_guest_without_limits_lives_for_a_first_lease_only() -> None:
    kernel = Kernel()
    box = start(a_runtime(kernel))
    kernel.run(FIRST_LEASE_S + 0.1)
    assert not box.alive


def test_a_guest_whose_time_is_over_before_it_begins_never_lives() -> None:
    kernel = Kernel()
    runtime = a_runtime(kernel)
    kernel.run(50.0)
    runtime.limit(RUN, 40.0, None)
    box = start(runtime)
    assert (box.process, box.cause) == (None, EndReason.LEASE_ENDED)


def test_a_power_cut_ends_everything_and_forgets_nothing() -> None:
    kernel = Kernel()
    runtime = a_runtime(kernel)
    box = start(runtime)
    kernel.run(10.0)
    runtime.power_off()
    assert list(runtime.living()) == []
    assert runtime.boxes[RUN] is box
    assert (box.exit_code, box.cause) == (None, None)
    assert box.last_step == 9


def test_a_program_saves_at_the_step_it_was_told_and_the_newest_request_counts() -> None:
    kernel, heard = Kernel(), Heard()
    process = a_process(kernel, heard, Program(steps=100, step_s=1.0, boot_s=0.0, capture_s=5.0))
    ask = process.ask_to_save
    kernel.at(10.5, lambda: ask(CheckpointId("c1"), final=False, slowness=1.0, at_step=40))
    kernel.at(20.5, lambda: ask(CheckpointId("c2"), final=False, slowness=1.0, at_step=30))
    kernel.at(50.0, lambda: ask(CheckpointId("c3"), final=False, slowness=1.0, at_step=10))
    kernel.at(60.0, lambda: ask(CheckpointId("c4"), final=True, slowness=1.0, at_step=200))
    kernel.run(120.0)
    assert heard.saved == [("c2", 30, 5.0), ("c3", 45, 5.0)]
    assert heard.exits == [0]  # it was done before it came to the step of the last one


def test_a_run_starts_at_most_once() -> None:
    kernel = Kernel()
    runtime = a_runtime(kernel)
    box = start(runtime)
    process = box.process
    runtime.start(box, Program(steps=5, step_s=1.0), 0)
    assert runtime.prepare(an_order()) is None
    assert box.process is process


def a_sealed(number: int, *, epoch: int = 1, step: int = 0) -> Sealed:
    return Sealed(
        checkpoint_id=CheckpointId(f"c{number}"),
        job_id=JobId("job"),
        epoch=epoch,
        step=step,
        size_bytes=1,
        added_bytes=1,
    )


def test_the_vault_refuses_what_is_older_than_the_newest_epoch() -> None:
    vault = ModelVault()
    assert vault.begin(JobId("job"), 2)
    assert vault.seal(a_sealed(1, epoch=1)) is CheckpointTrouble.OLD_EPOCH
    assert not vault.begin(JobId("job"), 1)
    assert vault.latest(JobId("job")) is None


def test_what_a_gang_might_go_back_to_stays_with_all_that_come_after_it() -> None:
    vault = ModelVault()
    for number in range(1, 8):
        vault.seal(replace(a_sealed(number, step=number), keep=CheckpointId("c2")))
    there = [number for number in range(1, 8) if vault.get(JobId("job"), CheckpointId(f"c{number}"))]
    assert there == [2, 3, 4, 5, 6, 7]


def test_sealing_the_same_again_is_fine_even_when_its_epoch_is_old() -> None:
    vault = ModelVault()
    assert vault.seal(a_sealed(1)) is None
    vault.begin(JobId("job"), 2)
    assert vault.seal(a_sealed(1)) is None


def test_a_full_vault_refuses_and_keeps_what_it_has() -> None:
    vault = ModelVault()
    vault.seal(a_sealed(1, step=5))
    vault.full = True
    assert vault.seal(a_sealed(2, step=9)) is CheckpointTrouble.VAULT_FULL
    latest = vault.latest(JobId("job"))
    assert latest is not None
    assert latest.step == 5


@pytest.mark.parametrize("count", [2, 3, 7])
def test_the_vault_keeps_the_newest_ones(count: int) -> None:
    vault = ModelVault()
    for number in range(count):
        vault.seal(a_sealed(number, step=number))
    kept = [number for number in range(count) if vault.get(JobId("job"), CheckpointId(f"c{number}"))]
    assert kept == list(range(count))[-3:]
