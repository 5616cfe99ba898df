"""What a policy cost on one campus, in the words of the evaluation: work redone, standstill, bytes, downtime.

GPU-seconds of work are counted at the speed of the reference card, so that losing an hour on a fast machine
weighs more than losing one on a slow one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from gpunion.domain.ids import JobId, RunId
from gpunion.domain.jobs.migration import UNANNOUNCED, Cause, Migration, MigrationPhase
from gpunion.sim.gpu_seconds import Ledger
from gpunion.sim.network.flows import Flow
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box
from gpunion.sim.program.process import SAVED_RUN_ME_AGAIN
from gpunion.sim.world import World

# Departures: the causes that are somebody's leaving, and not our own moving about.
ANNOUNCED = (Cause.OWNER_RECLAIM,)
# Jobs interrupted this often are GPUnion's own yardstick (HotNets '25: 3 to 7 % slower).
OFTEN = (2, 3, 4)

Figures = dict[str, float]


@dataclass(slots=True)
class _Told:
    """One job, as it was seen."""

    gpus: int
    step_s: float
    interruptions: int = 0
    moves: int = 0
    downtime_s: float = 0.0
    redone_s: float = 0.0  # of work, per GPU
    stall_s: float = 0.0
    furthest: int = 0
    ended: Box | None = None
    stood_still_s: float = 0.0


class CostWatch(Watch):
    def __init__(self, world: World, *, redundant_share: float = 0.0) -> None:
        self._world = world
        self._redundant_share = redundant_share
        self._jobs = {
            job.id: _Told(gpus=max(1, job.spec.request.gpus), step_s=job.program.step_s)
            for job in world.scenario.jobs
        }
        self._ledger = Ledger(world.kernel, world.machines)
        self._downtimes_s: list[float] = []
        self._recoveries_s: list[float] = []  # downtime and the work made a second time
        self._shipped_bytes = 0.0
        self._prepared_s: dict[RunId, float] = {}
        self._fetched_s: list[float] = []  # of moves: from the order to start until all its state was there
        world.watch(self)
        world.watch(self._ledger)

    def guest_prepared(self, box: Box) -> None:
        self._prepared_s[box.run_id] = self._world.kernel.now_s

    def guest_began(self, box: Box) -> None:
        job = self._jobs[box.job_id]
        former, job.ended = job.ended, None
        prepared_s = self._prepared_s.pop(box.run_id)
        if former is None:
            return
        self._fetched_s.append(self._world.kernel.now_s - prepared_s)
        job.moves += 1
        boot_s = 0.0 if box.process is None else box.process.program.boot_s
        down_s = self._world.kernel.now_s - job.stood_still_s + boot_s
        job.downtime_s += down_s
        self._downtimes_s.append(down_s)
        redone_s = max(0, former.last_step - box.resumed_step) * job.step_s
        job.redone_s += redone_s
        self._recoveries_s.append(down_s + redone_s)

    def guest_ended(self, box: Box) -> None:
        job = self._jobs[box.job_id]
        job.ended, job.stood_still_s = box, self._world.kernel.now_s
        job.furthest = max(job.furthest, box.last_step)
        if box.process is None:
            return
        job.stall_s += box.process.capturing_s
        if box.exit_code == SAVED_RUN_ME_AGAIN:  # it stood still already while it saved
            job.stood_still_s -= box.process.program.capture_s

    def shipping_ended(self, box: Box, flow: Flow) -> None:
        self._shipped_bytes += flow.moved_bytes

    def figures(self) -> Figures:
        self._count_the_unfinished()
        migrations, ahead = self._migrations(), self._ahead()
        jobs = list(self._jobs.values())
        useful_gpu_s = sum(job.furthest * job.step_s * job.gpus for job in jobs)
        redone_gpu_s = sum(job.redone_s * job.gpus for job in jobs)
        redundant_gpu_s = useful_gpu_s * self._redundant_share
        return {
            "useful_gpu_s": useful_gpu_s,
            "redone_gpu_s": redone_gpu_s,
            "redundant_gpu_s": redundant_gpu_s,
            "work_lost_gpu_s": redone_gpu_s + redundant_gpu_s,
            "stall_gpu_s": sum(job.stall_s * job.gpus for job in jobs),
            "shipped_bytes": self._shipped_bytes,
            **ahead,
            "sent_bytes": self._shipped_bytes + ahead["staged_bytes"],
            "moves": float(sum(job.moves for job in jobs)),
            "downtime_per_move_s": _mean(self._downtimes_s),
            "downtime_median_s": _median(self._downtimes_s),
            "recovery_median_s": _median(self._recoveries_s),
            "fetch_per_move_s": _mean(self._fetched_s),
            "fetch_median_s": _median(self._fetched_s),
            **_departures(migrations),
            **self._slowdown(jobs),
            **self._use(),
            "jobs": float(len(jobs)),
            "jobs_done": float(self._done()),
        }

    def _count_the_unfinished(self) -> None:
        """Who waits for a place at the end has lost what it made since its last sealed checkpoint; who runs
        has stood still so far and shipped so much."""
        for machine in self._world.machines.values():
            for box in machine.runtime.boxes.values():
                if box.alive and box.process is not None:
                    job = self._jobs[box.job_id]
                    job.furthest = max(job.furthest, box.step)
                    job.stall_s += box.process.capturing_s
        for job_id, job in self._jobs.items():
            if job.ended is not None and job.ended.cause is not None:
                sealed = self._world.vault.latest(job_id)
                step = 0 if sealed is None else sealed.step
                job.redone_s += max(0, job.ended.last_step - step) * job.step_s

    def _migrations(self) -> list[Migration]:
        station = self._world.coordinator.station
        migrations = [] if station is None else list(station.engine.state.migrations.values())
        for migration in migrations:
            if migration.cause in (*ANNOUNCED, *UNANNOUNCED):
                self._jobs[migration.job_id].interruptions += 1
        return migrations

    def _done(self) -> int:
        station = self._world.coordinator.station
        records = {} if station is None else station.engine.state.jobs
        return sum(record.phase.value == "succeeded" for record in records.values())

    def _slowdown(self, jobs: list[_Told]) -> Figures:
        """Lost, redone and stood-still seconds over the work done, of jobs interrupted two to four times."""
        slow = [
            (job.downtime_s + job.redone_s + job.stall_s) / (job.furthest * job.step_s)
            for job in jobs
            if job.interruptions in OFTEN and job.furthest > 0
        ]
        return {"slowdown_2_to_4": _mean(slow), "slowdown_2_to_4_median": _median(slow)}

    def _ahead(self) -> Figures:
        """What was brought to machines ahead of its job, and what of that a job then found."""
        shelves = [machine.agent.place.shelf for machine in self._world.machines.values()]
        return {
            "staged_bytes": sum(shelf.fetched_bytes for shelf in shelves),
            "found_bytes": sum(shelf.found_bytes for shelf in shelves),
            "copies": float(sum(shelf.copies for shelf in shelves)),
            "restores_that_found": float(sum(shelf.hits for shelf in shelves)),
        }

    def _use(self) -> Figures:
        accounts = self._ledger.accounts()
        gpus = sum(len(m.plan.facts.capacity.gpus) for m in self._world.machines.values())
        lent = sum(account.lent_gpu_s for account in accounts.values())
        used = sum(account.used_gpu_s for account in accounts.values())
        every = gpus * self._world.kernel.now_s
        carried = self._world.topology.network.carried_bytes
        return {
            "utilisation_of_lent": used / lent if lent else 0.0,
            "utilisation_owners_only": 1.0 - lent / every if every else 0.0,
            "utilisation_with_guests": (every - lent + used) / every if every else 0.0,
            "carried_bytes": carried,
        }


def _departures(migrations: list[Migration]) -> Figures:
    """Interruptions of jobs, by who was told and whether the last save made it."""
    left = [m for m in migrations if m.cause in (*ANNOUNCED, *UNANNOUNCED)]
    told = [m for m in left if m.cause in ANNOUNCED]
    done = [m for m in migrations if m.phase is MigrationPhase.DONE]
    came_home = {m.job_id for m in done if m.cause is Cause.HOMECOMING}
    driven_out: set[JobId] = {m.job_id for m in left}
    figures = {
        "interruptions": float(len(left)),
        "announced": float(len(told)),
        "announced_share": len(told) / len(left) if left else 0.0,
        "in_time": float(sum(map(_in_time, told))),
        "in_time_share": sum(map(_in_time, told)) / len(told) if told else 0.0,
        "homecomings": float(sum(m.cause is Cause.HOMECOMING for m in migrations)),
        "homecoming_share": len(came_home) / len(driven_out) if driven_out else 0.0,
    }
    by_notice: Mapping[int, list[Migration]] = _by_notice(told)
    for notice_s, those in sorted(by_notice.items()):
        figures[f"told_{notice_s}s"] = float(len(those))
        figures[f"in_time_{notice_s}s"] = float(sum(map(_in_time, those)))
    causes = Counter(m.cause.value for m in left)
    return {**figures, **{f"cause_{cause}": float(number) for cause, number in sorted(causes.items())}}


def _by_notice(told: list[Migration]) -> dict[int, list[Migration]]:
    by_notice: dict[int, list[Migration]] = defaultdict(list)
    for migration in told:
        if migration.deadline_s is not None:
            by_notice[round(migration.deadline_s - migration.started_s)].append(migration)
    return by_notice


def _in_time(migration: Migration) -> bool:
    """Its last save was asked for and arrived: nothing was lost but seconds."""
    return migration.flush is not None and not migration.fell_back


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if not ordered:
        return 0.0
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
