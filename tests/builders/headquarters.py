"""The coordinator's engine alone, with what agents and people say typed in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.job import Job, JobSpec
from gpunion.domain.jobs.run import EndReason, Run
from gpunion.domain.nodes.node import Node, NodeFacts
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.effects import SetTimer
from gpunion.domain.protocol.events import (
    CoordinatorEvent,
    JobStopAsked,
    JobSubmitted,
    NodeFellSilent,
    NodeJoined,
    NodeReported,
)
from gpunion.domain.protocol.reports import (
    Capture,
    CheckpointCaptured,
    CheckpointDurable,
    CheckpointFailed,
    Report,
    RunEnded,
    RunStarted,
)
from gpunion.domain.protocol.timers import CoordinatorTimer, coordinator_timer
from gpunion.domain.reasons.reason import Reason
from gpunion.domain.resources import MIB
from gpunion.domain.timing import Timing
from gpunion.engine.coordinator import audit
from gpunion.engine.coordinator.engine import CoordinatorEngine
from gpunion.engine.coordinator.state import CampusState
from gpunion.policy.policies import BASELINE, Policies
from tests.builders.engines import EngineAlone, decided
from tests.builders.values import TIMING, a_spec, facts


class _OfRun(TypedDict):
    run_id: RunId
    job_id: JobId
    epoch: int


def _of(run: Run) -> _OfRun:
    return _OfRun(run_id=run.id, job_id=run.job_id, epoch=run.epoch)


class Headquarters(EngineAlone[Decision]):
    """Every decision is audited, its reasons are put in words, and thinking it must leave no trace."""

    def __init__(self, *, policies: Policies = BASELINE, timing: Timing = TIMING, now_s: float = 100.0):
        super().__init__(now_s)
        self.engine = CoordinatorEngine(
            state=CampusState(), policies=policies, timing=timing, timers=self.timers
        )
        self.told: list[tuple[float, Reason]] = []

    def timer(self, text: str) -> CoordinatorTimer:
        return coordinator_timer(text)

    @property
    def state(self) -> CampusState:
        return self.engine.state

    def hears(self, event: CoordinatorEvent) -> Decision:
        decision = decided(self.engine, self.timers, self.now_s, event)
        violations = audit.check(self.state, decision)
        assert violations == [], violations
        self.told += [(self.now_s, reason) for reason in decision.reasons]
        return decision

    def joins(
        self,
        node: str,
        of: NodeFacts | None = None,
        *,
        incarnation: str = "first",
        guests: Iterable[str] = (),
    ) -> Decision:
        return self.hears(
            NodeJoined(
                node_id=NodeId(node),
                incarnation=incarnation,
                facts=of or facts(),
                guests=tuple(RunId(guest) for guest in guests),
            )
        )

    def submits(self, job: str = "job", spec: JobSpec | None = None, *, gpus: int = 1) -> Decision:
        return self.hears(JobSubmitted(job_id=JobId(job), spec=spec or a_spec(gpus=gpus)))

    def stops(self, job: str = "job") -> Decision:
        return self.hears(JobStopAsked(job_id=JobId(job)))

    def reported(self, node: str, report: Report) -> Decision:
        return self.hears(NodeReported(node_id=NodeId(node), report=report))

    def silent(self, node: str, *, heard_s: float | None = None) -> Decision:
        last_heard_s = self.now_s if heard_s is None else heard_s
        return self.hears(NodeFellSilent(node_id=NodeId(node), last_heard_s=last_heard_s))

    def restarts(self) -> Headquarters:
        """Another coordinator that knows only what the store has."""
        other = Headquarters(policies=self.engine.policies, timing=self.engine.timing, now_s=self.now_s)
        other.engine.state = CampusState.from_records(self.state.records())
        other.timers.apply(SetTimer(timer=timer, at_s=at_s) for timer, at_s in self.timers.items())
        return other

    # What agents say of runs; the node is looked up.

    def run(self, id: str = "job-e1") -> Run:
        return self.state.runs[RunId(id)]

    def job(self, id: str = "job") -> Job:
        return self.state.jobs[JobId(id)]

    def node(self, id: str = "alpha") -> Node:
        return self.state.nodes[NodeId(id)]

    def started(
        self, id: str = "job-e1", *, step: int = 0, restored: str | None = None, **more: Any
    ) -> Decision:
        run = self.run(id)
        return self.reported(
            run.node_id,
            RunStarted(
                **_of(run),
                restored=None if restored is None else CheckpointId(restored),
                resumed_step=step,
                restore_s=1.0,
                **more,
            ),
        )

    def ended(self, id: str, reason: EndReason, *, step: int = 0, **more: Any) -> Decision:
        run = self.run(id)
        return self.reported(run.node_id, RunEnded(**_of(run), reason=reason, last_step=step, **more))

    def captured(self, checkpoint: str, *, step: int, stall_s: float = 1.0, **more: Any) -> Decision:
        run = self.run(checkpoint.rpartition("-")[0])
        return self.reported(
            run.node_id,
            CheckpointCaptured(
                **_of(run),
                checkpoint_id=CheckpointId(checkpoint),
                step=step,
                progress=step / 1000,
                stall_s=stall_s,
                **more,
            ),
        )

    def durable(
        self,
        checkpoint: str,
        *,
        step: int,
        final: bool = False,
        shipped_bytes: int = MIB,
        elsewhere: str = "",
        capture: Capture | None = None,
    ) -> Decision:
        run = self.run(checkpoint.rpartition("-")[0])
        return self.reported(
            run.node_id,
            CheckpointDurable(
                **_of(run),
                checkpoint_id=CheckpointId(checkpoint),
                step=step,
                progress=step / 1000,
                size_bytes=2 * MIB,
                shipped_bytes=shipped_bytes,
                final=final,
                elsewhere=elsewhere,
                capture=capture,
            ),
        )

    def not_saved(
        self,
        checkpoint: str,
        trouble: CheckpointTrouble = CheckpointTrouble.NOT_ANSWERED,
        places: str = "",
    ) -> Decision:
        run = self.run(checkpoint.rpartition("-")[0])
        return self.reported(
            run.node_id,
            CheckpointFailed(
                **_of(run),
                checkpoint_id=CheckpointId(checkpoint),
                trouble=trouble,
                places=places,
            ),
        )


def a_running_job(job: str = "job", *, nodes: Iterable[str] = ("alpha",), **spec: Any) -> Headquarters:
    """Headquarters with one job running as epoch 1 on the first node it was placed on."""
    headquarters = Headquarters()
    for node in nodes:
        headquarters.joins(node)
    headquarters.submits(job, a_spec(**spec))
    headquarters.later(1.0).started(f"{job}-e1")
    return headquarters
