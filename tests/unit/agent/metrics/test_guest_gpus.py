"""What a guest does with its GPUs, added up from look to look."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.agent.machine.gpu_users import GpuUser
from gpunion.agent.metrics.guest_gpus import GAP_MAX_S, GuestGpus
from gpunion.domain.ids import RunId
from gpunion.domain.jobs.guest import Guest, GuestPhase, Parking
from gpunion.ports.gpus import GpuSight, Look
from tests.builders.values import a_grant, a_guest
from tests.unit.agent.values import a_station

RUN = RunId("job-e1")


def user(memory_bytes: int | None, run_id: str | None = "job-e1") -> GpuUser:
    return GpuUser(pid=1, name="python", memory_bytes=memory_bytes, run_id=run_id)


class Machine:
    def __init__(self, **changes: object) -> None:
        guest = a_guest(grant=a_grant(0, 1), phase=GuestPhase.RUNNING)
        self.station = a_station()
        self.stands(replace(guest, **changes))  # type: ignore[arg-type]
        self.counted = GuestGpus(lambda: self.station)

    def stands(self, guest: Guest) -> None:
        self.station.engine.state.guests[guest.run_id] = guest

    def sees(self, at_s: float, *utilisation: float | None, used: int = 50, **users: GpuUser) -> None:
        sights = tuple(
            GpuSight(index=index, utilisation=each, memory_used_bytes=used)
            for index, each in enumerate(utilisation)
        )
        on_0 = tuple(users.values())
        self.counted.seen(Look(at_s=at_s, gpus=sights), {0: on_0})


def test_utilisation_is_the_mean_of_all_its_gpus_over_time() -> None:
    machine = Machine()
    machine.sees(0.0, 1.0, 1.0)
    machine.sees(10.0, 1.0, 0.0)
    machine.sees(40.0, 0.5, 0.5)
    found = machine.counted.of(RUN)
    assert found is not None
    assert found.utilisation == pytest.approx((10.0 + 30.0) / 80.0)


def test_time_in_which_nobody_looked_counts_for_nothing() -> None:
    machine = Machine()
    machine.sees(0.0, 1.0)
    machine.sees(GAP_MAX_S + 1.0, 1.0)
    found = machine.counted.of(RUN)
    assert found is not None
    assert found.utilisation is None


def test_memory_is_the_most_that_its_own_processes_had() -> None:
    machine = Machine()
    machine.sees(0.0, 1.0, a=user(30), b=user(12), owner=user(500, None))
    machine.sees(1.0, 1.0, a=user(20))
    found = machine.counted.of(RUN)
    assert found is not None
    assert found.memory_bytes == 42


def test_a_driver_that_tells_processes_not_apart_is_believed_of_the_card_where_nobody_else_is_on_it() -> None:
    machine = Machine()
    machine.sees(0.0, 1.0, a=user(None))
    machine.sees(1.0, 1.0, used=500, a=user(None), owner=user(None, None))
    found = machine.counted.of(RUN)
    assert found is not None
    assert found.memory_bytes == 50


@pytest.mark.parametrize("changes", [{"parking": Parking.PARKED}, {"phase": GuestPhase.STARTING}])
def test_who_is_not_at_work_is_not_counted(changes: dict[str, object]) -> None:
    machine = Machine(**changes)
    machine.sees(0.0, 1.0)
    assert machine.counted.of(RUN) is None


def test_who_is_gone_is_forgotten() -> None:
    machine = Machine()
    machine.sees(0.0, 1.0)
    machine.station.engine.state.guests.clear()
    machine.sees(1.0, 1.0)
    assert machine.counted.of(RUN) is None
