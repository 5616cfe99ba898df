"""A coordinator's decision while it is being made.

It writes through to the live state, so that later steps of the same decision see the earlier ones, and takes
everything back at the end: deciding leaves no trace, only `CoordinatorEngine.apply` does.
"""

from __future__ import annotations

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.migration import Migration
from gpunion.domain.jobs.run import Run
from gpunion.domain.jobs.window import Promise
from gpunion.domain.nodes.node import Node
from gpunion.domain.protocol.decision import Decision, Record
from gpunion.domain.protocol.effects import CancelTimer, CoordinatorEffect, SendOrder, SetTimer
from gpunion.domain.protocol.orders import Order
from gpunion.domain.protocol.timers import CoordinatorTimer
from gpunion.domain.reasons.reason import Fact, Reason, Why, because
from gpunion.domain.timing import Timing
from gpunion.engine.coordinator.state import CampusState, only_counts
from gpunion.engine.timers import Timers
from gpunion.policy.policies import Policies

_Key = tuple[type, str]
# Only who changes one of these may let a job be placed or moved.
_MOVING = frozenset({Job, Run, Node, Migration})


class Draft:
    def __init__(
        self,
        state: CampusState,
        policies: Policies,
        timing: Timing,
        timers: Timers[CoordinatorTimer],
        now_s: float,
    ) -> None:
        self.state = state
        self.policies = policies
        self.timing = timing
        self.now_s = now_s
        self.look_again = False  # something the records do not show changed: time passed
        self.any_over = False  # a job that is over was put
        self.seeking: set[JobId] = set()  # whose last save has arrived or was given up: now a place will do
        self._moved = self._room = self._freed = False  # see `changed`, `may_place`, `freed`
        self._timers = timers
        self._fired: CoordinatorTimer | None = None
        self._former: dict[_Key, Record | None] = {}
        self._changes: dict[_Key, Record] = {}
        self._effects: list[CoordinatorEffect] = []
        self._reasons: list[Reason] = []

    def put(self, record: Record) -> None:
        kind = type(record)
        key = (kind, record.id)
        former = self.state.find(record)
        self._former.setdefault(key, former)
        self._changes[key] = record
        if kind not in _MOVING:
            self.state.put(record)
            return
        if type(record) is Job and record.phase.over:
            self.any_over = True
        if only_counts(former, record):
            self.state.put_count(record)
            return
        self._moved = True
        self._room = self._room or _may_make_room(record)
        self._freed = self._freed or _may_free(record)
        self.state.put(record)

    def has_put(self, record: Record) -> bool:
        return (type(record), record.id) in self._changes

    def changed_nodes(self) -> list[tuple[Node | None, Node]]:
        """Each node this decision has changed so far: as it was, and as it is."""
        changed = [record for record in self._changes.values() if type(record) is Node]
        if not changed:
            return []  # most decisions are about none
        formers = (self._former[(Node, node.id)] for node in changed)
        return [(f if isinstance(f, Node) else None, n) for f, n in zip(formers, changed, strict=True)]

    def changed_jobs(self) -> list[Job]:
        """Each job this decision has changed so far, as it is."""
        return [record for record in self._changes.values() if type(record) is Job]

    def promises_ended(self) -> list[Promise]:
        """What was promised before this decision, and is not any more: given up, kept, or of a job that is
        over."""
        changed = ((self._former[Job, job.id], job) for job in self.changed_jobs())
        return [
            former.promised
            for former, job in changed
            if isinstance(former, Job) and former.promised is not None
            if former.promised != job.promised or not job.phase.waiting
        ]

    def has_ended(self, job: Job) -> bool:
        """Whether it is over by this very decision."""
        former = self._former.get((Job, job.id))
        return job.phase.over and not (isinstance(former, Job) and former.phase.over)

    def changed_runs(self) -> list[tuple[Run | None, Run]]:
        changed = [record for record in self._changes.values() if type(record) is Run]
        if not changed:
            return []
        formers = (self._former[(Run, run.id)] for run in changed)
        return [(f if isinstance(f, Run) else None, r) for f, r in zip(formers, changed, strict=True)]

    def order(self, node_id: NodeId, order: Order) -> None:
        self._effects.append(SendOrder(node_id=node_id, order=order))

    def do(self, effect: CoordinatorEffect) -> None:
        self._effects.append(effect)

    def set_timer(self, timer: CoordinatorTimer, at_s: float) -> None:
        self._effects.append(SetTimer(timer=timer, at_s=at_s))

    def cancel_timer(self, timer: CoordinatorTimer) -> None:
        if self.timer_set(timer):
            self._effects.append(CancelTimer(timer=timer))

    def timer_set(self, timer: CoordinatorTimer) -> bool:
        for effect in reversed(self._effects):
            if isinstance(effect, (SetTimer, CancelTimer)) and effect.timer == timer:
                return isinstance(effect, SetTimer)
        return timer in self._timers and timer != self._fired

    def timer_at(self, timer: CoordinatorTimer) -> float | None:
        """When it was to fire, as of before this decision."""
        return self._timers.at(timer)

    def timer_fired(self, timer: CoordinatorTimer) -> None:
        """What this decision is about. The shell forgets the timer only afterwards, so it must not count."""
        self._fired = timer

    def because(self, subject: str, why: Why, **facts: Fact) -> None:
        self._reasons.append(because(subject, why, **facts))

    def add_reason(self, reason: Reason) -> None:
        self._reasons.append(reason)

    @property
    def changed(self) -> bool:
        """Whether anything changed that could let a job be placed or moved."""
        return self.look_again or self._moved

    @property
    def may_place(self) -> bool:
        """Whether a job that waits may find a place it did not find before, or has only begun to wait.

        What a running job learns of its costs, or a run that takes a place, makes no room for anybody."""
        return self.look_again or self._room

    @property
    def freed(self) -> bool:
        """Whether a node or a place on one may have come free."""
        return self.look_again or self._freed

    def known_step(self, run: Run) -> int:
        """The furthest step of a run anybody has told us of."""
        step, _ = self.state.progress.get(run.id, (0, 0.0))
        return max(step, run.last_step, run.resumed_step)

    def came_too_late(self, job_id: JobId, epoch: int, **facts: Fact) -> None:
        """A report that changes nothing any more, and why. `facts`: what else it tells."""
        job = self.state.jobs.get(job_id)
        if job is not None and epoch == job.epoch and job.phase.over:
            self.because(job_id, Why.ALREADY_OVER, phase=job.phase.value)
        else:
            current = 0 if job is None else job.epoch
            self.because(job_id, Why.STALE_EPOCH, epoch=epoch, current=current, **facts)

    def job_of(self, run: Run) -> Job:
        return self.state.jobs[run.job_id]

    def durable_step(self, job_id: JobId) -> int:
        durable = self.state.jobs[job_id].durable
        return 0 if durable is None else durable.step

    def finish(self) -> Decision:
        """Takes the state back to what it was and hands out what was decided."""
        for key in reversed(self._former):
            self.state.take_back(self._changes[key], self._former[key])
        return self.decided()

    def decided(self) -> Decision:
        return Decision(
            changes=tuple(self._changes.values()),
            effects=tuple(self._effects),
            reasons=tuple(self._reasons),
        )


def _may_free(record: Record) -> bool:
    return isinstance(record, Node) or (isinstance(record, Run) and not record.has_gpus)


def _may_make_room(record: Record) -> bool:
    match record:
        case Node() | Migration():
            return True
        case Run():
            return not record.has_gpus
        case Job():
            return record.phase.waiting
        case _:
            return False
