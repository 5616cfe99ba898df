"""What machines say of their GPUs, on its way into the history; also what cannot be true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.coordinator.usage.busy_hours import LONGEST_S, BusyHours
from gpunion.coordinator.usage.gpu_minutes import GpuMinutes
from gpunion.coordinator.usage.open_machines import OpenMachines
from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.frames import BusyGpus, GpuReading, GpuReadings
from gpunion.engine.coordinator.state import CampusState
from gpunion.ports.usage_history import BusySum
from tests.builders.values import a_node, facts

ALPHA = NodeId("alpha")
HOUR_S = 3600.0
NOW_S = 100 * HOUR_S


def a_machine(gpus: int = 2, *, declared: bool = False, **changes: object) -> Node:
    of = facts(gpus=gpus, lab="vision")
    cards = tuple(replace(gpu, declared=declared) for gpu in of.capacity.gpus)
    of = replace(of, capacity=replace(of.capacity, gpus=cards))
    return a_node("alpha", of=replace(of, **changes))  # type: ignore[arg-type]


def reading(utilisation: float | None, index: int = 0, **changes: float) -> GpuReadings:
    told = GpuReading(index=index, uuid=f"GPU-{index}", utilisation=utilisation)
    return GpuReadings(gpus=(replace(told, **changes),))  # type: ignore[arg-type]


def a_sum(for_s: float = HOUR_S, **changes: float) -> BusyGpus:
    told = BusyGpus(for_s=for_s, watched_gpu_s=2 * for_s, own_gpu_s=for_s, guest_gpu_s=for_s / 2)
    return replace(told, **changes)


def test_words_of_a_minute_become_its_mean_and_its_peaks() -> None:
    minutes = GpuMinutes()
    for second, busy, degrees in ((0.0, 1.0, 60.0), (10.0, 1.0, 70.0), (20.0, 0.0, 65.0)):
        minutes.heard(NOW_S + second, a_machine(), reading(busy, temperature_c=degrees))
    assert minutes.take(NOW_S + 30.0) == []  # it is not over
    [point] = minutes.take(NOW_S + 60.0)
    assert (point.at_s, point.node, point.index, point.temperature_c) == (NOW_S, "alpha", 0, 70.0)
    assert point.utilisation == pytest.approx(2 / 3)
    assert point.seen_s == 30.0
    assert minutes.take(NOW_S + 90.0) == []


def test_a_gpu_that_the_machine_has_not_and_one_that_is_declared_have_no_points() -> None:
    minutes = GpuMinutes()
    minutes.heard(NOW_S, a_machine(), reading(1.0, index=9))
    minutes.heard(NOW_S, a_machine(declared=True), reading(1.0))
    assert minutes.take(NOW_S + 60.0) == []


def test_a_machine_that_was_out_of_sight_was_seen_for_no_longer_than_between_two_words() -> None:
    minutes = GpuMinutes()
    minutes.heard(NOW_S, a_machine(), reading(1.0))
    minutes.heard(NOW_S + 600.0, a_machine(), reading(1.0))
    minutes.heard(NOW_S + 620.0, a_machine(), reading(1.0))
    assert [point.seen_s for point in minutes.take(NOW_S + 660.0)] == [10.0, 30.0]


def test_of_a_machine_whose_owner_takes_it_back_no_point_waits() -> None:
    minutes = GpuMinutes()
    minutes.heard(NOW_S, a_machine(), reading(1.0))
    minutes.put_back(minutes.take(NOW_S + 60.0))
    minutes.heard(NOW_S + 60.0, a_machine(), reading(1.0))
    minutes.forget([ALPHA])
    assert minutes.take(NOW_S + 120.0) == []


def test_points_that_nobody_took_come_again() -> None:
    minutes = GpuMinutes()
    minutes.heard(NOW_S, a_machine(), reading(1.0))
    taken = minutes.take(NOW_S + 60.0)
    minutes.put_back(taken)
    assert minutes.take(NOW_S + 60.0) == taken


def test_a_sum_is_spread_over_the_hours_it_is_of() -> None:
    busy = BusyHours(0.0)
    busy.heard(NOW_S + HOUR_S / 4, a_machine(), a_sum())
    before, after = busy.take()
    assert (before.at_s, before.watched_gpu_s) == (NOW_S - HOUR_S, 2 * HOUR_S * 3 / 4)
    assert (after.at_s, after.own_gpu_s, after.guest_gpu_s) == (NOW_S, HOUR_S / 4, HOUR_S / 8)


def total(sums: list[BusySum]) -> tuple[float, float, float]:
    return (
        sum(one.watched_gpu_s for one in sums),
        sum(one.own_gpu_s for one in sums),
        sum(one.guest_gpu_s for one in sums),
    )


def test_no_machine_can_have_done_more_than_its_gpus_could() -> None:
    busy = BusyHours(0.0)
    busy.heard(NOW_S, a_machine(), a_sum(watched_gpu_s=1e12, own_gpu_s=1e12, guest_gpu_s=1e12))
    assert total(busy.take()) == pytest.approx((2 * HOUR_S, 2 * HOUR_S, 0.0))


def test_who_says_it_twice_is_believed_once() -> None:
    busy = BusyHours(0.0)
    for second in range(10):
        busy.heard(NOW_S + second, a_machine(), a_sum())
    watched, _, _ = total(busy.take())
    assert watched == pytest.approx(2 * (HOUR_S + 9.0))


def test_who_was_out_of_touch_for_long_tells_of_the_last_day() -> None:
    busy = BusyHours(0.0)
    busy.heard(NOW_S, a_machine(), a_sum(for_s=30 * 24 * HOUR_S))
    watched, own, guests = total(busy.take())
    assert (watched, own, guests) == pytest.approx((2 * LONGEST_S, LONGEST_S, LONGEST_S / 2))


def test_of_the_time_before_the_coordinator_started_nothing_is_believed() -> None:
    """Who says it now may have said it to the one before."""
    busy = BusyHours(NOW_S - HOUR_S / 4)
    busy.heard(NOW_S, a_machine(), a_sum())
    assert total(busy.take()) == pytest.approx((HOUR_S / 2, HOUR_S / 4, HOUR_S / 8))
    busy.heard(NOW_S + HOUR_S, a_machine(), a_sum())
    assert total(busy.take()) == pytest.approx((2 * HOUR_S, HOUR_S, HOUR_S / 2))


@pytest.mark.parametrize(
    "told", [a_sum(for_s=0.0), BusyGpus(for_s=0, watched_gpu_s=1, own_gpu_s=1, guest_gpu_s=1)]
)
def test_a_sum_of_no_time_is_none(told: BusyGpus) -> None:
    busy = BusyHours(0.0)
    busy.heard(NOW_S, a_machine(), told)
    assert busy.take() == []


class Scene:
    def __init__(self, figures: str) -> None:
        self.figures = figures
        self.state = CampusState()
        self.machines = OpenMachines()

    def is_in(self, phase: NodePhase, at_s: float) -> None:
        node = replace(a_machine(terms=Terms(figures=self.figures)), phase=phase)
        self.state.put(node)
        self.machines.changed(at_s, self.state, [ALPHA])


def test_only_of_machines_whose_owners_say_so_it_is_kept_when_they_come_and_go() -> None:
    for figures, count in (("sums", 0), ("full", 2)):
        scene = Scene(figures)
        scene.is_in(NodePhase.SHARING, NOW_S)
        scene.is_in(NodePhase.SHARING, NOW_S + 70.0)
        scene.is_in(NodePhase.RECLAIMED, NOW_S + 130.0)
        phases, forget = scene.machines.take()
        assert (len(phases), forget) == (count, [])


def test_of_a_machine_that_changes_its_mind_each_second_a_minute_has_the_last_word() -> None:
    scene = Scene("full")
    for second in range(50):
        scene.is_in((NodePhase.PAUSED, NodePhase.SHARING)[second % 2], NOW_S + second)
    [last] = scene.machines.take()[0]
    assert (last.phase, last.at_s) == ("sharing", NOW_S + 49.0)


def test_an_owner_who_takes_it_back_is_forgotten() -> None:
    scene = Scene("full")
    scene.is_in(NodePhase.SHARING, NOW_S)
    scene.figures = "sums"
    scene.is_in(NodePhase.SHARING, NOW_S + 1.0)
    assert scene.machines.shut == {"alpha"}
    assert scene.machines.take() == ([], ["alpha"])


def test_who_gives_it_anew_before_it_could_be_written_has_what_is_new() -> None:
    scene = Scene("full")
    scene.is_in(NodePhase.SHARING, NOW_S)
    for figures in ("sums", "full"):
        scene.figures = figures
        scene.is_in(NodePhase.SHARING, NOW_S + 70.0)
    batch = scene.machines.take()
    scene.machines.put_back(*batch)
    assert scene.machines.take() == batch
    assert [one.at_s for one in batch[0]] == [NOW_S + 70.0]
