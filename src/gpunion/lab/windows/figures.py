"""How long people waited, how much work was done, and what that cost: one simulated campus in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean

from gpunion.domain.ids import JobId, RunId
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.run import Run
from gpunion.domain.protocol.commit import Commit
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.lab.evaluation.costs import CostWatch, Figures
from gpunion.lab.windows.lies import handed_in_as, is_liar
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box
from gpunion.sim.scenario.values import DAY_S, HOUR_S, JobPlan
from gpunion.sim.world import World

# A job that is done within ten minutes of being handed in was not slowed down, however short it is.
SHORT_S = 600.0
# Whoever is handed in later than this before the end is not asked whether it began.
LATE_S = DAY_S


@dataclass(slots=True)
class _Seen:
    plan: JobPlan
    first_step_s: float | None = None
    ended_s: float | None = None


class WaitWatch(Watch):
    """What happened to each job, as its user would tell it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._jobs = {plan.id: _Seen(plan=plan) for plan in world.scenario.jobs}
        self._costs = CostWatch(world)
        self._turn_since_s: dict[RunId, float | None] = {}
        self._phases: dict[JobId, JobPhase] = {}
        self._stays = self._leaves = 0
        world.watch(self)

    def guest_began(self, box: Box) -> None:
        job = self._jobs[box.job_id]
        if job.first_step_s is None:
            job.first_step_s = self._world.kernel.now_s + job.plan.program.boot_s

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        for record in commit.decision.changes:
            if type(record) is Run:
                self._count_a_stay(record)
            elif type(record) is Job:
                self._count_a_leave(record)

    def _count_a_stay(self, run: Run) -> None:
        """Its turn was over, others waited, and it has another one."""
        if run.turn_since_s is None:
            return
        if self._turn_since_s.get(run.id) != run.turn_since_s:
            self._stays += 1
        self._turn_since_s[run.id] = run.turn_since_s

    def _count_a_leave(self, job: Job) -> None:
        if job.phase is JobPhase.BETWEEN and self._phases.get(job.id) is not JobPhase.BETWEEN:
            self._leaves += 1
        self._phases[job.id] = job.phase
        if job.ended_s is not None and job.phase is JobPhase.SUCCEEDED:  # what fails is nobody's wish
            self._jobs[job.id].ended_s = job.ended_s

    def figures(self) -> Figures:
        end_s = self._world.kernel.now_s
        costs = self._costs.figures()
        jobs = [one for one in self._jobs.values() if one.plan.submit_s < end_s]
        mine = [one for one in jobs if one.plan.spec.atomizable]
        others = [one for one in jobs if not one.plan.spec.atomizable]
        useful_gpu_h = costs["useful_gpu_s"] / HOUR_S
        turns = self._stays + self._leaves
        return {
            **{key: costs[key] for key in _COSTS},
            "useful_gpu_h": useful_gpu_h,
            "lost_gpu_h": (costs["work_lost_gpu_s"] + costs["stall_gpu_s"]) / HOUR_S,
            "moves_per_gpu_h": costs["moves"] / useful_gpu_h if useful_gpu_h else 0.0,
            "gb_per_gpu_h": costs["sent_bytes"] / 1e9 / useful_gpu_h if useful_gpu_h else 0.0,
            "turns": float(turns),
            "stayed_share": self._stays / turns if turns else nan,
            **_told(jobs, end_s, ""),
            **_told(mine, end_s, "atomizable_"),
            **_told(others, end_s, "rigid_"),
            **{
                f"{key}_{gpus}gpu": value
                for gpus in (1, 2, 4)
                for key, value in _of_width(jobs, gpus, end_s).items()
            },
            "liars_response_s": _liars_response_s(jobs, end_s),
            "fairness": _jain(_slowdowns_of_users(jobs, end_s)),
            "gang_wait_s": _mean(_wait_s(one, end_s) for one in jobs if one.plan.spec.seat is not None),
            **self._windows(),
        }

    def _windows(self) -> Figures:
        station = self._world.coordinator.station
        records = [] if station is None else list(station.engine.state.jobs.values())
        profiles = [job.profile for job in records if job.profile is not None]
        pieces = sum(profile.pieces for profile in profiles)
        misses = sum(profile.misses for profile in profiles)
        return {
            "pieces": float(pieces),
            "misses": float(misses),
            "missed_share": misses / pieces if pieces else nan,
            "out_of_memory": float(sum(profile.out_of_memory for profile in profiles)),
            "failed": float(sum(job.phase is JobPhase.FAILED for job in records)),
        }


_COSTS = (
    "useful_gpu_s",
    "work_lost_gpu_s",
    "stall_gpu_s",
    "moves",
    "sent_bytes",
    "interruptions",
    "announced",
    "in_time",
    "homecomings",
    "utilisation_of_lent",
    "jobs",
    "jobs_done",
)


def _told(jobs: Sequence[_Seen], end_s: float, kind: str) -> Figures:
    waits = sorted(_wait_s(one, end_s) for one in jobs)
    return {
        f"{kind}wait_s": _mean(waits),
        f"{kind}wait_p50_s": _quantile(waits, 0.5),
        f"{kind}wait_p95_s": _quantile(waits, 0.95),
        f"{kind}wait_max_s": waits[-1] if waits else nan,
        f"{kind}response_s": _mean(_response_s(one, end_s) for one in jobs),
        f"{kind}slowdown": _mean(_slowdown(one, end_s) for one in jobs),
    }


def _of_width(jobs: Sequence[_Seen], gpus: int, end_s: float) -> Figures:
    those = [one for one in jobs if one.plan.spec.request.gpus == gpus]
    early = [one for one in those if one.plan.submit_s <= end_s - LATE_S]
    waits = [_wait_s(one, end_s) for one in those]
    return {
        "jobs": float(len(those)),
        "wait_s": _mean(waits),
        "wait_max_s": max(waits, default=nan),
        "early": float(len(early)),
        "early_wait_s": _mean(_wait_s(one, end_s) for one in early),
        "early_never": float(sum(one.first_step_s is None for one in early)),
    }


def _wait_s(job: _Seen, end_s: float) -> float:
    """From being handed in to its first step; of who never began, until the end of what was simulated."""
    began_s = end_s if job.first_step_s is None else min(end_s, job.first_step_s)
    return began_s - job.plan.submit_s


def _response_s(job: _Seen, end_s: float) -> float:
    return (end_s if job.ended_s is None else job.ended_s) - job.plan.submit_s


def _liars_response_s(jobs: Sequence[_Seen], end_s: float) -> float:
    """Of those who lie on a campus with liars, and tell the truth on the others. What was handed in as
    several jobs has ended when the last of them has."""
    longest: dict[str, float] = {}
    for one in jobs:
        if is_liar(one.plan.spec.owner):
            name = handed_in_as(one.plan.id)
            longest[name] = max(longest.get(name, 0.0), _response_s(one, end_s))
    return _mean(longest.values())


def _slowdown(job: _Seen, end_s: float) -> float:
    """Bounded: over what it takes alone on a reference GPU, or ten minutes."""
    program = job.plan.program
    return max(1.0, _response_s(job, end_s) / max(SHORT_S, program.steps * program.step_s))


def _slowdowns_of_users(jobs: Sequence[_Seen], end_s: float) -> list[float]:
    by_user: dict[str, list[float]] = {}
    for one in jobs:
        by_user.setdefault(one.plan.spec.owner, []).append(_slowdown(one, end_s))
    return [fmean(values) for values in by_user.values()]


def _jain(values: Sequence[float]) -> float:
    """1: all the same; 1/n: one has it all."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else nan


def _quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else nan


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return fmean(found) if found else nan
