"""What it cost: moves, standstill, steps made twice, bytes, and how well the lent GPUs were used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from gpunion.domain.ids import JobId, NodeId
from gpunion.sim.gpu_seconds import Account
from gpunion.sim.network.flows import Flow
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box
from gpunion.sim.world import World


@dataclass(slots=True)
class JobMeasure:
    phase: str = "unknown"
    runs: int = 0
    moves: int = 0  # times it went on somewhere after having run before
    downtime_s: float = 0.0  # from the end of one incarnation to the beginning of the next
    steps_redone: int = 0
    shipped_bytes: int = 0
    stall_s: float = 0.0
    waited_s: float = 0.0  # from submission to its first beginning
    ended_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    jobs: int
    succeeded: int
    moves: int
    downtime_s: float
    steps_redone: int
    shipped_bytes: int
    stall_s: float
    lent_gpu_s: float
    used_gpu_s: float
    utilisation: float

    def shown(self) -> dict[str, object]:
        return asdict(self)


class Measures(Watch):
    def __init__(self, world: World) -> None:
        self._world = world
        self.jobs = {job.id: JobMeasure() for job in world.scenario.jobs}
        self._submitted_s = {job.id: job.submit_s for job in world.scenario.jobs}
        self._ended: dict[JobId, Box] = {}
        self._ended_s: dict[JobId, float] = {}

    def guest_began(self, box: Box) -> None:
        job = self.jobs[box.job_id]
        job.runs += 1
        former = self._ended.get(box.job_id)
        if former is None:
            job.waited_s = self._world.kernel.now_s - self._submitted_s[box.job_id]
            return
        job.moves += 1
        job.downtime_s += self._world.kernel.now_s - self._ended_s[box.job_id]
        job.steps_redone += max(0, former.last_step - box.resumed_step)

    def guest_ended(self, box: Box) -> None:
        self._ended[box.job_id] = box
        self._ended_s[box.job_id] = self._world.kernel.now_s
        if box.process is not None:
            self.jobs[box.job_id].stall_s += box.process.capturing_s

    def shipping_ended(self, box: Box, flow: Flow) -> None:
        self.jobs[box.job_id].shipped_bytes += int(flow.moved_bytes)

    def finish(self) -> None:
        station = self._world.coordinator.station
        if station is not None:
            for record in station.engine.state.jobs.values():
                self.jobs[record.id].phase = record.phase.value
                self.jobs[record.id].ended_s = record.ended_s

    def totals(self, accounts: Mapping[NodeId, Account]) -> Totals:
        jobs = list(self.jobs.values())
        lent = sum(account.lent_gpu_s for account in accounts.values())
        used = sum(account.used_gpu_s for account in accounts.values())
        return Totals(
            jobs=len(jobs),
            succeeded=sum(job.phase == "succeeded" for job in jobs),
            moves=sum(job.moves for job in jobs),
            downtime_s=sum(job.downtime_s for job in jobs),
            steps_redone=sum(job.steps_redone for job in jobs),
            shipped_bytes=sum(job.shipped_bytes for job in jobs),
            stall_s=sum(job.stall_s for job in jobs),
            lent_gpu_s=lent,
            used_gpu_s=used,
            utilisation=used / lent if lent else 0.0,
        )
