"""The coordinator's brain. `handle` only thinks; `apply` follows once the store has the decision."""

from __future__ import annotations

from typing import assert_never

from gpunion.domain.decision import Decision
from gpunion.domain.events import (
    CoordinatorEvent,
    CoordinatorStarted,
    ImageAdded,
    ImageRemoved,
    JobStopAsked,
    JobSubmitted,
    NodeFellSilent,
    NodeHeard,
    NodeJoined,
    NodeRemoved,
    NodeReported,
    ProgramEnded,
    QuotaSet,
    TimerFired,
)
from gpunion.domain.frames import Preparing
from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.reasons import Reason, Verdict, Why
from gpunion.domain.reports import (
    CheckpointCaptured,
    CheckpointDurable,
    CheckpointFailed,
    DepartureForetold,
    GuestAskedToGo,
    NodeLeft,
    NodePaused,
    NodeReclaimed,
    NodeResumed,
    NoticeGiven,
    OutputArrived,
    Report,
    RunEnded,
    RunNotParked,
    RunParked,
    RunStarted,
    RunUnparked,
    SignsShown,
    StateStaged,
    TermsChanged,
)
from gpunion.domain.run import RunPhase
from gpunion.domain.timing import Timing
from gpunion.engine import (
    accounts,
    evacuation,
    gang_places,
    lending,
    lost_outputs,
    planner,
    signs,
    staging,
)
from gpunion.engine.draft import Draft
from gpunion.engine.handlers import (
    checkpoints,
    finishing,
    gang_runs,
    images,
    jobs,
    node_gpus,
    node_terms,
    nodes,
    parked_runs,
    runs,
)
from gpunion.engine.state import CampusState
from gpunion.engine.timers import Timers
from gpunion.policy.policies import Policies


class CoordinatorEngine:
    def __init__(self, *, state: CampusState, policies: Policies, timing: Timing, timers: Timers) -> None:
        self.state = state
        self.policies = policies
        self.timing = timing
        self.timers = timers

    def handle(self, now_s: float, event: CoordinatorEvent) -> Decision:
        draft = self._draft(now_s)
        try:
            self._decide(draft, event)
        finally:
            decision = draft.finish()
        return decision

    def apply(self, decision: Decision) -> None:
        self.state.apply(decision.changes)

    def note_progress(self, run_id: RunId, step: int, progress: float) -> None:
        """Hearsay from a heartbeat; kept in memory to explain and plan, never to decide what is durable."""
        run = self.state.runs.get(run_id)
        if run is not None and run.living:
            self.state.progress[run_id] = (step, progress)

    def note_preparing(self, node_id: NodeId, told: tuple[Preparing, ...]) -> None:
        """Hearsay too: all a node says of its runs that are to start. What it does not repeat is over."""
        before = self.state.preparing
        if not told and not before:
            return
        runs = self.state.runs
        others = {id: words for id, words in before.items() if id in runs and runs[id].node_id != node_id}
        new = {words.run_id: words for words in told if self._is_to_start(words.run_id, node_id)}
        self.state.preparing = {**others, **new}

    def _is_to_start(self, run_id: RunId, node_id: NodeId) -> bool:
        run = self.state.runs.get(run_id)
        return run is not None and run.node_id == node_id and run.phase is RunPhase.ORDERED

    def explain(self, now_s: float, job_id: JobId) -> tuple[Verdict, ...]:
        """What every node says to this job right now."""
        draft = self._draft(now_s)
        try:
            return planner.verdicts(draft, self.state.jobs[job_id])
        finally:
            draft.finish()

    def turns_away(self, now_s: float, event: JobSubmitted) -> tuple[Reason, ...]:
        """Why such a job would not be accepted now; nothing where it would be."""
        draft = self._draft(now_s)
        try:
            jobs.submitted(draft, event)
            accepted = event.job_id in self.state.jobs
        finally:
            decision = draft.finish()
        return () if accepted else decision.reasons

    def _decide(self, draft: Draft, event: CoordinatorEvent) -> None:
        _dispatch(draft, event)
        if draft.changed:  # else no node came or went, and no run has ended
            lending.follow(draft)
            accounts.follow_ends(draft)
        if draft.any_over:
            staging.follow_ends(draft)
        if draft.changed:
            planner.reconcile(draft)

    def waits_because(self, now_s: float, job_id: JobId) -> list[Reason]:
        """What besides the nodes decides when a waiting job gets its turn."""
        draft = self._draft(now_s)
        try:
            job = self.state.jobs[job_id]
            return [*gang_places.waits_because(draft, job), *accounts.waits_because(draft, job)]
        finally:
            draft.finish()

    def _draft(self, now_s: float) -> Draft:
        return Draft(self.state, self.informed_policies(), self.timing, self.timers, now_s)

    def informed_policies(self) -> Policies:
        """Those that learn, with what was learned so far."""
        learning = self.policies.learning
        if learning is None:
            return self.policies
        return self.policies.informed(self.state.memories.answers(learning))


def _dispatch(draft: Draft, event: CoordinatorEvent) -> None:
    match event:  # cases are tried in turn: the commonest first
        case NodeReported(node_id=node_id, report=report):
            _report(draft, node_id, report)
        case TimerFired(key=key):
            _timer(draft, key)
        case JobSubmitted():
            jobs.submitted(draft, event)
        case JobStopAsked():
            jobs.stop_asked(draft, event)
        case QuotaSet():
            accounts.set_quota(draft, event)
        case ImageAdded():
            images.added(draft, event)
        case ImageRemoved():
            images.removed(draft, event)
        case NodeJoined():
            nodes.joined(draft, event)
        case NodeFellSilent():
            nodes.fell_silent(draft, event)
        case NodeHeard():
            nodes.heard(draft, event)
        case ProgramEnded():
            finishing.heard(draft, event)
        case NodeRemoved():
            nodes.removed(draft, event)
        case CoordinatorStarted():
            nodes.none_was_heard(draft)
            lending.begin_again(draft)
            planner.look_again_later(draft)
        case _:
            assert_never(event)


def _report(draft: Draft, node_id: NodeId, report: Report) -> None:
    run_id = getattr(report, "run_id", None)
    run = None if run_id is None else draft.state.runs.get(run_id)
    if run is not None and run.node_id != node_id:
        # A node speaks for its own guests only, whatever its agent was made to say.
        draft.because(run.job_id, Why.NOT_ITS_RUN, node=node_id, run=run.id)
        return
    match report:  # the commonest first
        case CheckpointCaptured():
            checkpoints.captured(draft, report)
        case CheckpointDurable():
            checkpoints.durable(draft, report)
        case RunStarted():
            runs.started(draft, node_id, report)
        case RunEnded():
            _ended(draft, runs.closed(draft, report))
        case RunParked() | RunNotParked() | RunUnparked():
            _parking(draft, report)
        case CheckpointFailed():
            checkpoints.failed(draft, report)
        case OutputArrived():
            lost_outputs.arrived(draft, node_id, report)
        case StateStaged():
            staging.staged(draft, node_id, report)
        case NoticeGiven() | NodeReclaimed() | NodePaused() | NodeResumed() | NodeLeft():
            _owner_said(draft, node_id, report)
        case TermsChanged() | DepartureForetold() | GuestAskedToGo():
            node_terms.said(draft, node_id, report)
        case SignsShown():
            signs.shown(draft, node_id, report)
        case _:
            assert_never(report)


def _ended(draft: Draft, ending: runs.Ending | None) -> None:
    if ending is None:
        return
    if ending.job.spec.seat is None:
        runs.ended(draft, ending)
    else:
        gang_runs.ended(draft, ending)


def _parking(draft: Draft, report: RunParked | RunNotParked | RunUnparked) -> None:
    match report:
        case RunParked():
            parked_runs.parked(draft, report)
        case RunNotParked():
            parked_runs.not_parked(draft, report)
        case RunUnparked():
            parked_runs.unparked(draft, report)


def _owner_said(
    draft: Draft, node_id: NodeId, report: NoticeGiven | NodeReclaimed | NodePaused | NodeResumed | NodeLeft
) -> None:
    match report:
        case NodeLeft():
            nodes.left(draft, node_id)
        case _ if report.gpus:
            node_gpus.said(draft, node_id, report)
        case NoticeGiven():
            nodes.notice_given(draft, node_id, report)
        case NodeReclaimed():
            nodes.reclaimed(draft, node_id, report)
        case NodePaused():
            nodes.paused(draft, node_id)
        case NodeResumed():
            nodes.resumed(draft, node_id)


def _timer(draft: Draft, key: str) -> None:
    draft.timer_fired(key)
    name, _, subject = key.partition(":")
    match name:
        case "checkpoint":
            checkpoints.due(draft, RunId(subject))
        case "give_up" | "fence":
            _ended(draft, runs.given_up(draft, RunId(subject)))
        case "start":
            runs.start_overdue(draft, RunId(subject))
        case "flush":
            checkpoints.flush_overdue(draft, subject)
        case "lesson":
            lending.lesson(draft)
        case "evacuate":
            evacuation.look(draft, NodeId(subject))
        case "replan" | "leave":
            planner.look_again_later(draft)
        case _:
            raise ValueError(f"no timer is called {key!r}")
