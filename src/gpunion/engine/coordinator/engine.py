"""The coordinator's brain. `handle` only thinks; `apply` follows once the store has the decision."""

from __future__ import annotations

from typing import assert_never

from gpunion.domain.environment import EnvironmentAdded, EnvironmentRemoved, InstalledEnvironment
from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.image import ImageAdded, ImageRemoved
from gpunion.domain.jobs.job import BidsChanged, Job
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.jobs.session import SessionEndAsked, SessionIdle
from gpunion.domain.nodes.node import Node
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.nodes.trust import NodeAccepted, NodeMisled, NodeRemoved, PlanningFailed
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.events import (
    CoordinatorEvent,
    CoordinatorStarted,
    EventSetAside,
    JobStopAsked,
    JobSubmitted,
    NodeFellSilent,
    NodeHeard,
    NodeJoined,
    NodeReported,
    ProgramEnded,
    QuotaSet,
    TimerFired,
)
from gpunion.domain.protocol.frames import Preparing, SessionNote
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.protocol.reports import (
    CheckpointCaptured,
    CheckpointDurable,
    CheckpointFailed,
    DepartureForetold,
    GpusKeptFree,
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
from gpunion.domain.protocol.timers import (
    CoordinatorTimer,
    EvacuationDue,
    FenceOver,
    LastSaveOverdue,
    LessonDue,
    ParkedLongEnough,
    PieceOverdue,
    ReplanDue,
    SaveDue,
    SilentTooLong,
    StartOverdue,
    TurnOver,
    TurnToLeave,
)
from gpunion.domain.reasons.reason import Reason, Verdict, Why
from gpunion.domain.timing import Timing
from gpunion.engine.coordinator import capacity, held, message_checks, sessions
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.handlers import (
    asides,
    checkpoints,
    gang_runs,
    images,
    isolation,
    jobs,
    lending,
    node_gpus,
    node_terms,
    nodes,
    parked_runs,
    runs,
    signs,
)
from gpunion.engine.coordinator.handlers import outputs as finishing
from gpunion.engine.coordinator.message_checks import Refusal
from gpunion.engine.coordinator.planning import accounts, placement, room_told, staging
from gpunion.engine.coordinator.planning import gang_placement as gang_places
from gpunion.engine.coordinator.planning import reconcile as planner
from gpunion.engine.coordinator.planning.clearing import shown
from gpunion.engine.coordinator.planning.clearing.shown import ShownWindow
from gpunion.engine.coordinator.runs import evacuation
from gpunion.engine.coordinator.state import CampusState
from gpunion.engine.coordinator.windows import between
from gpunion.engine.coordinator.windows import wishes as bids
from gpunion.engine.timers import Timers
from gpunion.policy.placement.openness import is_open
from gpunion.policy.policies import Policies


class CoordinatorEngine:
    def __init__(
        self, *, state: CampusState, policies: Policies, timing: Timing, timers: Timers[CoordinatorTimer]
    ) -> None:
        self.state = state
        self.policies = policies
        self.timing = timing
        self.timers = timers

    def handle(self, now_s: float, event: CoordinatorEvent, *, plan: bool = True) -> Decision:
        """`plan`: whether places are found as well for jobs that could have one now."""
        draft = self._draft(now_s)
        try:
            self._decide(draft, event, plan)
        finally:
            decision = draft.finish()
        return decision

    def plans_with(self, now_s: float, record: Node | Job | Run | None = None) -> bool:
        """Whether finding places works, were one record as given. For finding out what is at fault."""
        draft = self._draft(now_s)
        try:
            if record is not None:
                draft.put(record)
            planner.look_again_later(draft)
            planner.reconcile(draft)
        except Exception:
            return False
        finally:
            draft.finish()
        return True

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
        new = {words.run_id: words for words in told if self._is_to_start(words.run_id)}
        self.state.preparing = {**others, **new}

    def note_installed(self, node_id: NodeId, told: tuple[InstalledEnvironment, ...]) -> None:
        """Hearsay as well: which environments lie ready on a machine, for people to see."""
        if told != self.state.installed.get(node_id, ()):
            self.state.installed = {**self.state.installed, node_id: told}

    def note_sessions(self, now_s: float, node_id: NodeId, told: tuple[SessionNote, ...]) -> None:
        """Hearsay as well, of the sessions that are on a machine."""
        self.state.sessions = sessions.heard(self.state, now_s, node_id, told)

    def _is_to_start(self, run_id: RunId) -> bool:
        run = self.state.runs.get(run_id)
        return run is not None and run.phase is RunPhase.ORDERED

    def explain(self, now_s: float, job_id: JobId) -> tuple[Verdict, ...]:
        """What every node says to this job right now."""
        draft = self._draft(now_s)
        try:
            return placement.verdicts(draft, self.state.jobs[job_id])
        finally:
            draft.finish()

    def open_nodes(self, now_s: float, places: tuple[str, ...] = ()) -> tuple[NodeView, ...]:
        """The nodes that would take somebody now who keeps checkpoints there, and what is free of them."""
        draft = self._draft(now_s)
        try:
            return tuple(view for view in capacity.views(draft) if is_open(view, now_s, places))
        finally:
            draft.finish()

    def windows(self, now_s: float) -> tuple[ShownWindow, ...]:
        """Which there are at this moment, who has them, and who bids for them."""
        draft = self._draft(now_s)
        try:
            return shown.windows(draft)
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

    def _decide(self, draft: Draft, event: CoordinatorEvent, plan: bool = True) -> None:
        _dispatch(draft, event)
        if isinstance(event, EventSetAside) and event.plainly:
            return
        if draft.changed:  # else no node came or went, and no run has ended
            lending.follow(draft)
            accounts.follow_ends(draft)
        if draft.any_over:
            staging.follow_ends(draft)
        if plan and draft.changed:
            planner.reconcile(draft)

    def waits_because(self, now_s: float, job_id: JobId) -> list[Reason]:
        """What besides the nodes decides when a waiting job gets its turn."""
        draft = self._draft(now_s)
        try:
            job = self.state.jobs[job_id]
            room = room_told.waits_because(draft, job)
            if not job.phase.waiting:
                return room  # it stands still, and has no turn among those who wait
            return [*gang_places.waits_because(draft, job), *room, *accounts.waits_because(draft, job)]
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
        case TimerFired(timer=timer):
            _timer(draft, timer)
        case JobSubmitted():
            jobs.submitted(draft, event)
        case JobStopAsked():
            jobs.stop_asked(draft, event)
        case BidsChanged():
            bids.changed(draft, event)
        case QuotaSet():
            accounts.set_quota(draft, event)
        case ImageAdded():
            images.added(draft, event)
        case ImageRemoved():
            images.removed(draft, event)
        case EnvironmentAdded():
            images.environment_added(draft, event)
        case EnvironmentRemoved():
            images.environment_removed(draft, event)
        case NodeJoined():
            nodes.joined(draft, event)
            held.joined(draft, event)
        case NodeFellSilent():
            nodes.fell_silent(draft, event)
        case NodeHeard():
            nodes.heard(draft, event)
        case ProgramEnded():
            finishing.heard(draft, event)
        case SessionIdle():
            jobs.session_idle(draft, event)
        case SessionEndAsked():
            jobs.session_end_asked(draft, event)
        case NodeRemoved():
            nodes.removed(draft, event)
        case NodeMisled(node_id=node_id, because=because):
            isolation.isolate(draft, node_id, because)
        case NodeAccepted():
            isolation.accepted(draft, event)
        case EventSetAside():
            asides.set_aside(draft, event)
        case PlanningFailed():
            asides.planning_failed(draft, event)
        case CoordinatorStarted():
            nodes.none_was_heard(draft)
            held.told(draft)
            lending.begin_again(draft)
            planner.look_again_later(draft)
        case _:
            assert_never(event)


def _report(draft: Draft, node_id: NodeId, report: Report) -> None:
    of_held = held.of_report(draft.state, report)
    if of_held is not None:
        held.said(draft, node_id, of_held, report)
        return
    refusal = message_checks.of_report(draft.state, node_id, report)
    if refusal is not None:
        _refused(draft, node_id, report, refusal)
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
            finishing.output_arrived(draft, node_id, report)
        case StateStaged():
            staging.staged(draft, node_id, report)
        case NoticeGiven() | NodeReclaimed() | NodePaused() | NodeResumed() | NodeLeft():
            _owner_said(draft, node_id, report)
        case GpusKeptFree():
            node_gpus.said(draft, node_id, report)
        case TermsChanged() | DepartureForetold() | GuestAskedToGo():
            node_terms.said(draft, node_id, report)
        case SignsShown():
            signs.shown(draft, node_id, report)
        case _:
            assert_never(report)


def _refused(draft: Draft, node_id: NodeId, report: Report, refusal: Refusal) -> None:
    """Taken all the same, else it would come for ever. What is not counted, or comes from an isolated node,
    nobody is told of: it could come without end."""
    kind, node = type(report).__name__, draft.state.nodes.get(node_id)
    if not refusal.counts or (node is not None and node.isolated_because):
        return
    draft.because(node_id, Why.REPORT_REFUSED, node=node_id, report=kind, because=refusal.because)
    if isinstance(report, RunStarted) and report.run_id not in draft.state.runs:
        draft.order(node_id, StopRun(run_id=report.run_id, job_id=report.job_id, epoch=report.epoch))


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


def _timer(draft: Draft, timer: CoordinatorTimer) -> None:
    draft.timer_fired(timer)
    match timer:  # the commonest first
        case SaveDue(run_id=run_id):
            checkpoints.due(draft, run_id)
        case ReplanDue() | TurnToLeave() | TurnOver() | ParkedLongEnough():
            planner.look_again_later(draft)
        case LastSaveOverdue(migration_id=migration_id):
            checkpoints.flush_overdue(draft, migration_id)
        case PieceOverdue(run_id=run_id):
            between.overdue(draft, run_id)
        case LessonDue():
            lending.lesson(draft)
        case EvacuationDue(node_id=node_id):
            evacuation.look(draft, node_id)
        case SilentTooLong(run_id=run_id) | FenceOver(run_id=run_id):
            _ended(draft, runs.given_up(draft, run_id))
        case StartOverdue(run_id=run_id):
            runs.start_overdue(draft, run_id)
        case _:
            assert_never(timer)
