"""Invariants 7, 8 and 10, and the engine's own audit: nothing acknowledged is lost, nothing happens without a
reason, and every job ends."""

from __future__ import annotations

from gpunion.domain.ids import NodeId, run_id
from gpunion.domain.jobs.gang import member_ids
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.run import EndReason, Run
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.protocol.events import JobSubmitted
from gpunion.domain.protocol.frames import AgentFrame, CoordinatorFrame, Welcome
from gpunion.engine.coordinator import audit
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.engine.coordinator.runs.retry_limits import Trouble, reached
from gpunion.engine.coordinator.state import CampusState
from gpunion.sim.checkers.court import Checker, Court
from gpunion.sim.program.box import Box


class NothingAcknowledgedIsLost(Checker):
    """An acknowledgement on the wire stands for something on a disk; at the end no outbox holds anything."""

    def __init__(self, court: Court) -> None:
        super().__init__(court)
        self._not_meant: dict[NodeId, int] = {}  # orders up to here were never for this agent

    def sent_down(self, node_id: NodeId, frame: CoordinatorFrame) -> None:
        if isinstance(frame, Welcome):
            self._not_meant[node_id] = max(frame.orders_before, self._not_meant.get(node_id, 0))
        station = self.world.coordinator.station
        meant_for = "" if station is None else station.links[node_id].incarnation
        mark = self.world.coordinator.disk.marks.get(node_id)
        kept = 0 if mark is None or mark.incarnation != meant_for else mark.seq
        if frame.ack > kept:
            what = f"report {frame.ack} was acknowledged, {kept} is the last one committed"
            self.court.find(7, node_id, what)

    def sent_up(self, node_id: NodeId, frame: AgentFrame) -> None:
        kept = max(self.world.machines[node_id].agent.disk.order_seq, self._not_meant.get(node_id, 0))
        ack = getattr(frame, "ack", 0)
        if ack > kept:
            self.court.find(7, node_id, f"order {ack} was acknowledged, {kept} is the last one committed")

    def at_the_end(self) -> None:
        station = self.world.coordinator.station
        if station is None or self.world.scenario.troubles.heal_s is None or not self.world.over:
            return
        for node_id, link in sorted(station.links.items()):
            node = station.engine.state.nodes.get(node_id)
            if node is not None and node.phase is not NodePhase.LEFT and link.orders.waiting:
                left = ", ".join(type(order).__name__ for order in link.orders.waiting.values())
                self.court.find(7, node_id, f"orders were never acknowledged: {left}")


class EverythingHasAReason(Checker):
    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        subjects = set()
        for reason in commit.decision.reasons:
            subjects.add(reason.subject)
            reason.sentence()  # a sentence that cannot be told is a bug of its own
        for record in commit.decision.changes:
            if isinstance(record, Run) and not record.living:
                self._judge(record, subjects, station)
        if isinstance(commit.event, JobSubmitted):
            self._ask_why(commit, station)

    def _judge(self, run: Run, subjects: set[str], station: PureCoordinator) -> None:
        if run.end_reason is None:
            self.court.find(8, run.job_id, f"{run.id} ended without a reason")
        elif run.end_reason is not EndReason.FINISHED and run.job_id not in subjects:
            job = station.engine.state.jobs[run.job_id]
            if job.migration is None:
                self.court.find(8, run.job_id, f"{run.id} ended ({run.end_reason}) and nobody was told why")

    def _ask_why(self, commit: Commit, station: PureCoordinator) -> None:
        assert isinstance(commit.event, JobSubmitted)
        job = station.engine.state.jobs.get(commit.event.job_id)
        if job is None:
            if not commit.decision.reasons:
                self.court.find(8, commit.event.job_id, "was turned away without a word")
            return
        verdicts = station.engine.explain(commit.at_s, job.id)
        there = {node.id for node in station.engine.state.nodes.values() if node.phase is not NodePhase.LEFT}
        silent = there - {verdict.node for verdict in verdicts}
        if silent:
            self.court.find(8, job.id, f"no verdict of {', '.join(sorted(silent))}")
        for verdict in verdicts:
            if verdict.refusal is not None:
                verdict.refusal.sentence()


class EveryJobEnds(Checker):
    def at_the_end(self) -> None:
        if self.world.scenario.troubles.heal_s is None:
            return
        station = self.world.coordinator.station
        jobs: list[Job] = [] if station is None else list(station.engine.state.jobs.values())
        for job in jobs:
            if not job.phase.over:
                self.court.find(10, job.id, f"is still {job.phase} at the end")
        for plan in self.world.scenario.jobs:
            if plan.id not in self.world.coordinator.answered:
                self.court.find(10, plan.id, "was submitted and never answered")


class EveryJobEndsAsItShould(Checker):
    """Told by the program's own end: an interruption never makes a job fail, nor succeed."""

    def __init__(self, court: Court) -> None:
        super().__init__(court)
        self._programs = {job.id: job.program for job in self.world.scenario.jobs}
        self._impatient = {job.id for job in self.world.scenario.jobs if job.stop_s is not None}
        self._finished: set[str] = set()

    def guest_ended(self, box: Box) -> None:
        if box.exit_code == 0:
            self._finished.add(box.job_id)

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        for record in commit.decision.changes:
            if isinstance(record, Job) and record.phase.over:
                self._judge(record, station.engine.state)

    def _judge(self, job: Job, state: CampusState) -> None:
        if job.phase is JobPhase.FAILED and self._programs[job.id].fails_at_step is None:
            self._judge_failure(job, state)
        elif job.phase is JobPhase.SUCCEEDED and job.id not in self._finished:
            self.court.find(10, job.id, "succeeded though its program never came to its end")
        elif job.phase is JobPhase.CANCELLED and job.id not in self._impatient:
            self.court.find(10, job.id, "was cancelled though nobody asked for it")

    def _judge_failure(self, job: Job, state: CampusState) -> None:
        """Of a sound program: with what it saved, once nothing earlier was left to go back to."""
        members = (job.id,) if job.spec.seat is None else member_ids(job.id, job.spec.seat)
        runs = [state.runs[run_id(one, state.jobs[one].epoch)] for one in members]
        if not any(run.restored_from in self.world.vault.ruined for run in runs):
            what = "failed though there is nothing wrong with its program, nor with what it was given"
            self.court.find(10, job.id, what)
        elif job.earlier and not reached(Trouble.SAVE_USELESS, job.went_back):
            self.court.find(10, job.id, "failed though all members had an earlier save to go back to")


class EnginesOwnAudit(Checker):
    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        for found in audit.check(station.engine.state, commit.decision):
            self.court.find(found.invariant, found.subject, f"audit: {found.what}")
