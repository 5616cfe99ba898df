"""Virtual time, named chance and wrong clocks."""

from __future__ import annotations

import pytest

from gpunion.sim.kernel import STRETCH_S, Kernel
from gpunion.sim.program.clocks import Clock
from gpunion.sim.streams import Streams


def test_events_run_in_order_of_time_and_then_of_asking() -> None:
    kernel, seen = Kernel(), []
    kernel.at(2.0, lambda: seen.append("late"))
    kernel.at(1.0, lambda: seen.append("first"))
    kernel.at(1.0, lambda: seen.append("second"))
    kernel.run(10.0)
    assert seen == ["first", "second", "late"]
    assert kernel.now_s == 10.0


def test_a_cancelled_event_never_runs() -> None:
    kernel, seen = Kernel(), []
    alarm = kernel.at(1.0, lambda: seen.append("no"))
    alarm.cancel()
    kernel.run(10.0)
    assert seen == []
    assert not alarm.pending


def test_the_order_is_the_same_however_far_ahead_things_are_asked_for() -> None:
    """What is far off is put aside and looked at when its time comes near."""
    kernel, seen, asked = Kernel(), [], []
    chance = Streams(1).named("moments")
    for name in range(300):
        at_s = float(chance.randrange(40)) * STRETCH_S / 7
        alarm = kernel.at(at_s, lambda name=name: seen.append(name))  # type: ignore[misc]
        if chance.random() < 0.2:
            alarm.cancel()
        else:
            asked.append((at_s, name))

    def ask_for_more() -> None:
        kernel.after(3 * STRETCH_S, lambda: seen.append("asked for later"))

    kernel.at(STRETCH_S / 2, ask_for_more)
    kernel.run(STRETCH_S)
    assert seen == [name for at_s, name in sorted(asked) if at_s <= STRETCH_S]
    kernel.run(10 * STRETCH_S)
    assert [name for name in seen if name != "asked for later"] == [name for _, name in sorted(asked)]
    before = [name for at_s, name in sorted(asked) if at_s <= 3.5 * STRETCH_S]
    assert seen.index("asked for later") == len(before)


def test_a_time_that_has_passed_means_now() -> None:
    kernel, seen = Kernel(), []

    def too_late() -> None:
        kernel.at(1.0, lambda: seen.append(kernel.now_s))

    kernel.at(5.0, too_late)
    kernel.run(10.0)
    assert seen == [5.0]


def test_nothing_after_the_horizon_runs() -> None:
    kernel, seen = Kernel(), []
    kernel.at(10.5, lambda: seen.append("no"))
    kernel.run(10.0)
    assert seen == []


def test_a_run_can_be_stopped_between_two_events() -> None:
    kernel, seen = Kernel(), []
    kernel.at(1.0, lambda: seen.append(1))
    kernel.at(1.0, kernel.stop)
    kernel.at(2.0, lambda: seen.append(2))
    kernel.run(10.0)
    assert seen == [1]
    assert kernel.now_s == 1.0


def test_draws_of_one_stream_do_not_shift_another() -> None:
    alone, disturbed = Streams(5), Streams(5)
    disturbed.named("other").random()
    assert alone.named("mine").random() == disturbed.named("mine").random()


def test_another_seed_or_name_gives_other_draws() -> None:
    draws = {Streams(seed).named(name).random() for seed in (1, 2) for name in ("a", "b")}
    assert len(draws) == 4


def test_a_stream_is_the_same_in_every_process() -> None:
    assert Streams(1).named("transport").randrange(10**6) == 253426


@pytest.mark.parametrize("rate", [0.95, 1.0, 1.05])
def test_a_clock_reads_back_what_it_said(rate: float) -> None:
    clock = Clock(rate=rate, offset_s=7200.0)
    assert clock.true(clock.local(123.4)) == pytest.approx(123.4)
    assert clock.local(200.0) - clock.local(100.0) == pytest.approx(100.0 * rate)


def test_a_clock_that_jumps_goes_on_from_there() -> None:
    clock = Clock(rate=1.05, offset_s=10.0)
    before_s = clock.local(50.0)
    clock.jump(50.0, -3600.0)
    assert clock.local(50.0) == pytest.approx(before_s - 3600.0)
    assert clock.local(60.0) - clock.local(50.0) == pytest.approx(10.5)
