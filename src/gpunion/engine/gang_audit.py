"""Invariants 11 and 12: a gang runs all together or not at all, and all of it goes on from one step."""

from __future__ import annotations

from collections.abc import Iterable

from gpunion.domain.decision import Decision
from gpunion.domain.effects import SendOrder
from gpunion.domain.gang import Seat, leader_of, member_ids
from gpunion.domain.ids import JobId, run_id
from gpunion.domain.job import DurablePoint, Job
from gpunion.domain.orders import StartRun
from gpunion.domain.run import RunPhase
from gpunion.engine.state import CampusState
from gpunion.engine.violation import Violation
from gpunion.policy.gangs.agreeing import Mark, mark

# A run that is being ended is not counted: that takes as long as its machine takes, or its fence.
_TO_STAY = (RunPhase.ORDERED, RunPhase.RUNNING)


def check(state: CampusState, decision: Decision) -> list[Violation]:
    found: list[Violation] = []
    touched = {job.id: job.spec.seat for job in decision.changes if isinstance(job, Job) and job.spec.seat}
    leaders = sorted({leader_of(job_id, seat) for job_id, seat in touched.items() if seat is not None})
    for leader in leaders:
        seat = state.jobs[leader].spec.seat
        if seat is not None:
            members = [state.jobs[one] for one in member_ids(leader, seat)]
            found += _partly_running(state, leader, members)
            found += _mixed_steps(state, leader, members)
    return found + _started_apart(decision)


def _partly_running(state: CampusState, leader: JobId, members: list[Job]) -> list[Violation]:
    """Between decisions no member runs, or starts, that is not being ended while another waits."""
    waiting = [one.id for one in members if one.phase.waiting]
    runs = (state.runs.get(run_id(one.id, one.epoch)) for one in members)
    staying = [run.id for run in runs if run is not None and run.phase in _TO_STAY]
    if not waiting or not staying:
        return []
    what = f"{', '.join(staying)} run(s) on while {', '.join(waiting)} wait(s)"
    return [Violation(invariant=11, subject=leader, what=what)]


def _mixed_steps(state: CampusState, leader: JobId, members: list[Job]) -> list[Violation]:
    living = [one for one in members if not one.phase.over]
    found = []
    steps = {None if one.durable is None else _mark(state, one.durable) for one in living}
    if len(steps) > 1:
        what = f"its members would go on from steps {steps}"
        found.append(Violation(invariant=12, subject=leader, what=what))
    earlier = {tuple(_mark(state, point) for point in one.earlier) for one in living}
    if len(earlier) > 1:
        what = f"its members would go back to different steps: {sorted(earlier)}"
        found.append(Violation(invariant=12, subject=leader, what=what))
    for one in living:
        points = (*one.earlier, one.durable)
        if any(point is not None and point.checkpoint_id in one.spoiled for point in points):
            what = "it would go on from a save that was of no use before"
            found.append(Violation(invariant=12, subject=one.id, what=what))
    return found


def _mark(state: CampusState, point: DurablePoint) -> Mark:
    return mark(point.step, state.checkpoints[point.checkpoint_id].requested_s)


def _started_apart(decision: Decision) -> list[Violation]:
    """Every start of a gang starts all of it, in one epoch and from one step."""
    starts: dict[JobId, list[StartRun]] = {}
    seats: dict[JobId, Seat] = {}
    for order in _starts(decision):
        if order.seat is not None:
            leader = leader_of(order.job_id, order.seat)
            starts.setdefault(leader, []).append(order)
            seats[leader] = order.seat
    found = []
    for leader, orders in starts.items():
        if len(orders) != seats[leader].size:
            what = f"{len(orders)} of its {seats[leader].size} members were started"
            found.append(Violation(invariant=11, subject=leader, what=what))
        if len({(order.epoch, order.restore_step, order.restore is None) for order in orders}) > 1:
            what = "its members were started from different steps, or in different epochs"
            found.append(Violation(invariant=12, subject=leader, what=what))
    return found


def _starts(decision: Decision) -> Iterable[StartRun]:
    for effect in decision.effects:
        if isinstance(effect, SendOrder) and isinstance(effect.order, StartRun):
            yield effect.order
