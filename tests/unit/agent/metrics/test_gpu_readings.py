"""Which figures of a GPU leave its machine, and when."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from gpunion.agent.machine.gpu_users import GpuUser
from gpunion.agent.machine.gpu_watch import GpuWatch
from gpunion.agent.metrics.gpu_readings import GpuFigures
from gpunion.domain.jobs.guest import Guest, GuestPhase, Parking
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.frames import GpuReading
from gpunion.domain.resources import GIB, Gpu
from gpunion.ports.gpus import GpuSight, Look
from tests.builders.values import a_grant, a_guest
from tests.unit.agent.values import a_station

OWNERS = GpuUser(pid=4711, name="python", memory_bytes=GIB, run_id=None)
GUESTS = GpuUser(pid=4712, name="python", memory_bytes=GIB, run_id="job-e1")


@dataclass
class Seen:
    """What the watch of the GPUs has seen last."""

    last: Look
    users: dict[int, tuple[GpuUser, ...]] = field(default_factory=dict)


def sight(index: int, utilisation: float = 0.9) -> GpuSight:
    return GpuSight(index=index, uuid=f"GPU-{index}", utilisation=utilisation, temperature_c=70.0)


class Machine:
    """Two GPUs that a driver sees."""

    def __init__(self, *guests: Guest, figures: str = "sums", declared: bool = False) -> None:
        station = a_station()
        gpus = tuple(
            Gpu(index=index, model="A100", memory_bytes=8 * GIB, declared=declared) for index in range(2)
        )
        station.facts = replace(station.facts, capacity=replace(station.facts.capacity, gpus=gpus))
        station.engine.state.guests.update({guest.run_id: guest for guest in guests})
        self.seen = Seen(last=Look(at_s=0.0, gpus=(sight(0), sight(1))))
        self.figures = GpuFigures(station, cast(GpuWatch, self.seen), lambda: Terms(figures=figures))

    def looks(self, at_s: float, *utilisations: float) -> None:
        gpus = tuple(sight(index, share) for index, share in enumerate(utilisations))
        self.seen.last = Look(at_s=at_s, gpus=gpus)
        self.figures.seen()

    def told(self) -> list[int]:
        return [reading.index for reading in self.figures.for_the_campus().gpus]


def on_gpu_1(**changes: object) -> Guest:
    return replace(a_guest(grant=a_grant(1), phase=GuestPhase.RUNNING), **changes)  # type: ignore[arg-type]


def test_only_what_guests_hold_is_told() -> None:
    assert Machine().told() == []
    assert Machine(on_gpu_1()).told() == [1]
    assert Machine(on_gpu_1(phase=GuestPhase.SHIPPING)).told() == []


def test_an_owner_who_says_so_shows_all() -> None:
    assert Machine(figures="full").told() == [0, 1]


def test_the_owner_sees_all_whatever_the_campus_is_told() -> None:
    assert [reading.index for reading in Machine().figures.for_the_owner()] == [0, 1]


@pytest.mark.parametrize("parking", list(Parking))
def test_whoever_works_where_a_guest_is_parked_is_not_told_of(parking: Parking) -> None:
    assert Machine(on_gpu_1(parking=parking)).told() == []


def test_the_owners_own_work_beside_a_guest_is_not_told_of() -> None:
    machine = Machine(on_gpu_1())
    machine.seen.users = {1: (GUESTS,)}
    assert machine.told() == [1]
    machine.seen.users = {1: (GUESTS, OWNERS)}
    assert machine.told() == []


def test_what_was_not_seen_anew_is_no_figure_of_now() -> None:
    machine = Machine(on_gpu_1())
    machine.seen.last = replace(machine.seen.last, trouble="the driver hangs")
    assert machine.told() == []
    machine.seen.last = Look(at_s=1.0, gpus=(sight(0), replace(sight(1), gone="fell off the bus")))
    assert machine.told() == []


def test_a_declared_gpu_has_no_figures() -> None:
    assert Machine(on_gpu_1(), declared=True, figures="full").told() == []


def test_what_is_no_number_is_not_said() -> None:
    machine = Machine(on_gpu_1())
    machine.seen.last = Look(at_s=0.0, gpus=(sight(1, utilisation=float("nan")),))
    assert machine.figures.for_the_campus().gpus == (
        GpuReading(index=1, uuid="GPU-1", utilisation=None, temperature_c=70.0),
    )


def test_a_program_that_works_in_turns_is_as_busy_as_it_is_on_average() -> None:
    machine = Machine(on_gpu_1())
    for half_s in range(20):
        machine.looks(half_s / 2, 0.0, 1.0 if half_s % 2 else 0.0)
    [reading] = machine.figures.for_the_campus().gpus
    assert reading.utilisation == pytest.approx(0.5)
    assert [one.utilisation for one in machine.figures.for_the_owner()] == [0.0, 1.0]


def test_what_was_before_the_last_seconds_counts_no_more_and_nothing_piles_up_while_nobody_is_told() -> None:
    machine = Machine(on_gpu_1())
    for second in range(3600):
        machine.looks(float(second), 0.0, 1.0)
    for second in range(3600, 3610):
        machine.looks(float(second), 0.0, 0.25)
    assert machine.figures.for_the_campus().gpus[0].utilisation == pytest.approx(0.25)
    assert len(machine.figures._lately) <= 10


def test_the_owners_work_a_moment_ago_is_in_no_mean() -> None:
    machine = Machine(on_gpu_1())
    machine.seen.users = {1: (GUESTS, OWNERS)}
    machine.looks(0.0, 0.0, 1.0)
    machine.seen.users = {1: (GUESTS,)}
    machine.looks(1.0, 0.0, 0.5)
    assert machine.figures.for_the_campus().gpus[0].utilisation == pytest.approx(0.5)
