"""Runs what was recorded again, as it was and with other machines, and compares how long jobs waited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.timing import Timing
from gpunion.lab.calm.world import CalmWorld
from gpunion.lab.replay.owners import STARTS_S, owner_plans
from gpunion.lab.replay.recorded import PastJob, PastMachine, Recorded
from gpunion.policy.policies import LIVE, Policies
from gpunion.sim.gpu_seconds import Ledger
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box
from gpunion.sim.scenario.values import JobPlan, NodePlan, Program, Scenario, in_gang
from gpunion.sim.streams import Streams

STEP_S = 10.0
USUAL_WORK_S = 3600.0  # where no job has run
# Everything that makes room is planned for at once; on a wire that loses nothing little is worth repeating.
TIMING = Timing(replan_s=120.0, resend_s=3600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Of one seed."""

    median_s: float
    mean_s: float
    never_ran: int
    utilisation: float


def waits_again(
    recorded: Recorded, machines: Sequence[PastMachine], seed: int, policies: Policies = LIVE
) -> Waits:
    """The same seed draws the same owners for the machines that stay, whatever else is changed."""
    scenario = scenario_of(recorded, machines, seed)
    world = CalmWorld(scenario, policies)
    begins, ledger = _Begins(lambda: world.kernel.now_s), Ledger(world.kernel, world.machines)
    world.watch(begins)
    world.watch(ledger)
    world.run()
    waits = [
        begins.first_s.get(plan.id, scenario.horizon_s) - plan.submit_s
        for plan, job in zip(_first_members(scenario), recorded.jobs, strict=True)
        if job.measured and job.stop_s is None
    ]
    never = sum(plan.id not in begins.first_s for plan in _first_members(scenario))
    accounts = ledger.accounts().values()
    lent_s = sum(account.lent_gpu_s for account in accounts)
    return Waits(
        median_s=median(waits) if waits else 0.0,
        mean_s=sum(waits) / len(waits) if waits else 0.0,
        never_ran=never,
        utilisation=sum(account.used_gpu_s for account in accounts) / lent_s if lent_s else 0.0,
    )


def scenario_of(recorded: Recorded, machines: Sequence[PastMachine], seed: int) -> Scenario:
    known_s = sorted(job.work_s for job in recorded.jobs if job.work_s is not None)
    usual_s = median(known_s) if known_s else USUAL_WORK_S
    jobs = [plan for number, job in enumerate(recorded.jobs) for plan in _plans(number, job, usual_s)]
    return Scenario(
        name="replay",
        seed=seed,
        horizon_s=recorded.length_s + STARTS_S,
        nodes=tuple(_node(machine) for machine in machines),
        jobs=tuple(jobs),
        owners=owner_plans(recorded, machines, Streams(seed)),
        timing=TIMING,
    )


def _first_members(scenario: Scenario) -> list[JobPlan]:
    return [plan for plan in scenario.jobs if plan.handed_in]


def _node(machine: PastMachine) -> NodePlan:
    uplink_bps = machine.facts.capacity.uplink_bps
    return NodePlan(id=NodeId(machine.name), facts=machine.facts, downlink_bps=uplink_bps)


def _plans(number: int, job: PastJob, usual_s: float) -> tuple[JobPlan, ...]:
    work_s = job.work_s if job.work_s is not None else job.spec.expected_s or usual_s
    submit_s = job.submit_s + STARTS_S
    plan = JobPlan(
        id=JobId(f"job-{number:06d}"),
        spec=replace(job.spec, seat=None, places=(), image=None, bundle=None, lockfile=None),
        program=Program(steps=max(1, round(work_s / STEP_S)), step_s=STEP_S),
        submit_s=submit_s,
        stop_s=None if job.stop_s is None else submit_s + max(1.0, job.stop_s),
    )
    return in_gang(plan, job.gang)


class _Begins(Watch):
    def __init__(self, now_s: Callable[[], float]) -> None:
        self.first_s: dict[JobId, float] = {}
        self._now_s = now_s

    def guest_began(self, box: Box) -> None:
        self.first_s.setdefault(box.job_id, self._now_s())
