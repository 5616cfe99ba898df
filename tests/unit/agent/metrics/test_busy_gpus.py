"""How much a machine's GPUs work for their owner and for guests, summed by the hour."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.agent.machine.gpu_users import GpuUser
from gpunion.agent.metrics.busy_gpus import TOLD_EVERY_S, BusySums
from gpunion.domain.jobs.guest import GuestPhase, Parking
from gpunion.ports.gpus import GpuSight, Look
from tests.builders.values import a_grant, a_guest
from tests.unit.agent.values import a_station

OWNER = GpuUser(pid=1, name="python", memory_bytes=1, run_id=None)


class Machine:
    """GPU 0 is its owner's, GPU 1 has a guest."""

    def __init__(self, **changes: object) -> None:
        self.station = a_station()
        guest = a_guest(grant=a_grant(1), phase=GuestPhase.RUNNING)
        self.station.engine.state.guests[guest.run_id] = replace(guest, **changes)  # type: ignore[arg-type]
        self.sums = BusySums(lambda: self.station)

    def sees(self, at_s: float, *utilisation: float | None, **users: GpuUser) -> None:
        sights = tuple(GpuSight(index=index, utilisation=each) for index, each in enumerate(utilisation))
        self.sums.seen(Look(at_s=at_s, gpus=sights), {1: tuple(users.values())})

    def an_hour(self, *utilisation: float | None, **users: GpuUser) -> tuple[float, float, float]:
        for minute in range(61):
            self.sees(60.0 * minute, *utilisation, **users)
        told = self.sums.due()
        assert told is not None
        return told.watched_gpu_s, told.own_gpu_s, told.guest_gpu_s


def test_an_hour_is_told_once_and_whole() -> None:
    machine = Machine()
    machine.sees(0.0, 0.5, 1.0)
    machine.sees(60.0, 0.5, 1.0)
    assert machine.sums.due() is None
    assert Machine().an_hour(0.5, 1.0) == pytest.approx((7200.0, 1800.0, 3600.0))
    assert machine.sums.due() is None


def test_what_a_driver_does_not_say_is_not_watched() -> None:
    assert Machine().an_hour(None, 0.5) == pytest.approx((3600.0, 0.0, 1800.0))


def test_where_the_owner_works_beside_a_guest_or_while_it_is_parked_it_is_the_owners() -> None:
    assert Machine().an_hour(0.0, 1.0, owner=OWNER) == pytest.approx((7200.0, 3600.0, 0.0))
    assert Machine(parking=Parking.PARKED).an_hour(0.0, 1.0) == pytest.approx((7200.0, 3600.0, 0.0))


def test_time_in_which_nobody_looked_is_not_counted() -> None:
    machine = Machine()
    machine.sees(0.0, 1.0)
    machine.sees(2 * TOLD_EVERY_S, 1.0)
    assert machine.sums.due() is None
