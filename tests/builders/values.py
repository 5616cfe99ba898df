"""Values with defaults, and what a decision says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId, checkpoint_id
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import Guest, GuestPhase
from gpunion.domain.jobs.job import CheckpointWish, Job, JobPhase, JobSpec, Priority
from gpunion.domain.jobs.run import EndReason, Run, RunPhase
from gpunion.domain.nodes.node import DiskRoom, Node, NodeFacts, NodePhase
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.decision import AgentDecision, Decision
from gpunion.domain.protocol.effects import (
    AgentEffect,
    CancelTimer,
    SendOrder,
    SendReport,
    SetTimer,
)
from gpunion.domain.protocol.frames import Welcome
from gpunion.domain.protocol.orders import Order, StartRun, StopRun, TakeCheckpoint
from gpunion.domain.protocol.reports import CheckpointFailed, Report, RunEnded
from gpunion.domain.protocol.timers import text_of
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB, Capacity, Gpu, Grant, Request
from gpunion.domain.timing import Timing

TIMING = Timing()
GIGABIT_BPS = 1e9


def some_gpus(
    count: int = 1,
    *,
    model: str = "card",
    memory_gib: float = 24,
    speed: float = 1.0,
    first: int = 0,
    compute_capability: str = "",
    cuda: str = "",
) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            index=index,
            model=model,
            memory_bytes=int(memory_gib * GIB),
            speed=speed,
            compute_capability=compute_capability,
            cuda=cuda,
        )
        for index in range(first, first + count)
    )


def facts(
    *,
    gpus: int | tuple[Gpu, ...] = 1,
    speed: float = 1.0,
    cpus: float = 16.0,
    memory_gib: float = 64,
    uplink_bps: float = GIGABIT_BPS,
    lab: str = "alpha",
    terms: Terms | None = None,
    sandboxed: bool = True,
    places: tuple[str, ...] = (),
    places_away: tuple[str, ...] = (),
    disk: DiskRoom = DiskRoom.FINE,
) -> NodeFacts:
    cards = some_gpus(gpus, speed=speed) if isinstance(gpus, int) else gpus
    capacity = Capacity(gpus=cards, cpus=cpus, memory_bytes=int(memory_gib * GIB), uplink_bps=uplink_bps)
    return NodeFacts(
        lab=lab,
        capacity=capacity,
        terms=terms or Terms(),
        sandboxed=sandboxed,
        places=places,
        places_away=places_away,
        disk=disk,
    )


def a_spec(
    *,
    gpus: int = 1,
    lab: str = "students",
    priority: Priority = Priority.NORMAL,
    expected_s: float | None = None,
    checkpoint: CheckpointWish | None = None,
    request: Request | None = None,
    places: tuple[str, ...] = (),
) -> JobSpec:
    return JobSpec(
        name="train",
        command=("python", "train.py"),
        owner="sam",
        lab=lab,
        request=request or Request(gpus=gpus),
        priority=priority,
        checkpoint=checkpoint or CheckpointWish(),
        expected_s=expected_s,
        places=places,
    )


def a_job(id: str = "job", *, gpus: int = 1, spec: JobSpec | None = None, **changes: Any) -> Job:
    job = Job(
        id=JobId(id),
        spec=spec or a_spec(gpus=gpus),
        phase=JobPhase.PENDING,
        submitted_s=0.0,
        waiting_since_s=0.0,
    )
    return replace(job, **changes)


def a_node(id: str = "alpha", *, of: NodeFacts | None = None, **changes: Any) -> Node:
    node = Node(
        id=NodeId(id),
        facts=of or facts(),
        phase=NodePhase.SHARING,
        incarnation="first",
        joined_s=0.0,
        phase_since_s=0.0,
    )
    return replace(node, **changes)


def a_view(node: Node | None = None, **changes: Any) -> NodeView:
    """A node with nobody on it."""
    node = node or a_node()
    capacity = node.facts.capacity
    view = NodeView(
        node=node,
        free_gpus=capacity.gpus,
        free_cpus=capacity.cpus,
        free_memory_bytes=capacity.memory_bytes,
        guests=0,
    )
    return replace(view, **changes)


def a_grant(*indices: int) -> Grant:
    return Grant(gpu_indices=indices or (0,), cpus=1.0, memory_bytes=GIB)


def a_run(id: str = "job-e1", **changes: Any) -> Run:
    job, _, epoch = id.rpartition("-e")
    run = Run(
        id=RunId(id),
        job_id=JobId(job),
        node_id=NodeId("alpha"),
        epoch=int(epoch),
        phase=RunPhase.RUNNING,
        grant=a_grant(),
        ordered_s=0.0,
    )
    return replace(run, **changes)


def a_guest(id: str = "job-e1", **changes: Any) -> Guest:
    job, _, epoch = id.rpartition("-e")
    guest = Guest(
        run_id=RunId(id), job_id=JobId(job), epoch=int(epoch), grant=a_grant(), phase=GuestPhase.RUNNING
    )
    return replace(guest, **changes)


def a_start(id: str = "job-e1", *, gpu: int = 0, **changes: Any) -> StartRun:
    job, _, epoch = id.rpartition("-e")
    order = StartRun(
        run_id=RunId(id),
        job_id=JobId(job),
        epoch=int(epoch),
        command=("python", "train.py"),
        environment=(),
        bundle=None,
        grant=a_grant(gpu),
        name="train",
        user="sam",
        lab="students",
    )
    return replace(order, **changes)


def a_stop(id: str = "job-e1") -> StopRun:
    job, _, epoch = id.rpartition("-e")
    return StopRun(run_id=RunId(id), job_id=JobId(job), epoch=int(epoch))


def a_save_order(id: str = "job-e1", number: int = 1, **changes: Any) -> TakeCheckpoint:
    job, _, epoch = id.rpartition("-e")
    order = TakeCheckpoint(
        run_id=RunId(id),
        job_id=JobId(job),
        epoch=int(epoch),
        checkpoint_id=checkpoint_id(RunId(id), number),
        final=False,
        by_s=None,
        rate_bps=1e6,
    )
    return replace(order, **changes)


def the_end(reason: EndReason, **changes: Any) -> RunEnded:
    end = RunEnded(
        run_id=RunId("job-e1"), job_id=JobId("job"), epoch=1, reason=reason, last_step=0, at_s=100.0
    )
    return replace(end, **changes)


def not_saved(trouble: CheckpointTrouble, checkpoint: str = "job-e1-c1") -> CheckpointFailed:
    return CheckpointFailed(
        run_id=RunId("job-e1"),
        job_id=JobId("job"),
        epoch=1,
        checkpoint_id=CheckpointId(checkpoint),
        trouble=trouble,
    )


def a_welcome(**changes: Any) -> Welcome:
    welcome = Welcome(term=1, hello_sent_s=100.0, orders_before=0, ack=0, timing=TIMING, sent_s=100.0)
    return replace(welcome, **changes)


def whys(decision: Decision | AgentDecision, subject: str | None = None) -> list[Why]:
    return [reason.why for reason in decision.reasons if subject in (None, reason.subject)]


def orders(decision: Decision) -> list[tuple[NodeId, Order]]:
    return [(e.node_id, e.order) for e in decision.effects if isinstance(e, SendOrder)]


def timers_of(decision: Decision | AgentDecision) -> dict[str, float | None]:
    """Set timers by their texts; None where one was cancelled. The last word on each counts."""
    said: dict[str, float | None] = {}
    for effect in decision.effects:
        if isinstance(effect, SetTimer):
            said[text_of(effect.timer)] = effect.at_s
        elif isinstance(effect, CancelTimer):
            said[text_of(effect.timer)] = None
    return said


def reports(decision: AgentDecision) -> list[Report]:
    return [effect.report for effect in decision.effects if isinstance(effect, SendReport)]


def ends(decision: AgentDecision) -> list[EndReason]:
    return [report.reason for report in reports(decision) if isinstance(report, RunEnded)]


def deeds(decision: AgentDecision) -> list[AgentEffect]:
    """What an agent's hands have to do: neither timers nor reports."""
    return [e for e in decision.effects if not isinstance(e, SetTimer | CancelTimer | SendReport)]
