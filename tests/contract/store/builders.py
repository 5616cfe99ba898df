"""Records and commits with defaults, for tests of stores."""

from __future__ import annotations

from typing import Any

from gpunion.domain.environment import CampusEnvironment, package_list
from gpunion.domain.ids import CheckpointId, JobId, MigrationId, NodeId, RunId
from gpunion.domain.image import Archive, CampusImage, Image, ImagePhase
from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase
from gpunion.domain.jobs.job import DurablePoint, Job, JobPhase, JobSpec
from gpunion.domain.jobs.migration import Cause, Migration, MigrationPhase
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.nodes.node import Node, NodeFacts, NodePhase
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.events import CoordinatorStarted
from gpunion.domain.reasons.reason import Why, because
from gpunion.domain.resources import GIB, Capacity, Gpu, Grant

JOB = JobId("job-1")
RUN = RunId("job-1-e1")
NODE = NodeId("alpha")


def a_job(**changes: Any) -> Job:
    spec = JobSpec(name="train", command=("python", "train.py"), owner="admin", environment=(("SEED", "1"),))
    defaults: dict[str, Any] = {
        "id": JOB,
        "spec": spec,
        "phase": JobPhase.PENDING,
        "submitted_s": 100.0,
        "waiting_since_s": 100.0,
    }
    return Job(**{**defaults, **changes})


def a_run(**changes: Any) -> Run:
    defaults: dict[str, Any] = {
        "id": RUN,
        "job_id": JOB,
        "node_id": NODE,
        "epoch": 1,
        "phase": RunPhase.ORDERED,
        "grant": Grant(gpu_indices=(0, 1), cpus=1.5, memory_bytes=GIB),
        "ordered_s": 101.0,
    }
    return Run(**{**defaults, **changes})


def a_node(**changes: Any) -> Node:
    gpu = Gpu(index=0, model="A100", memory_bytes=40 * GIB)
    capacity = Capacity(gpus=(gpu,), cpus=8.0, memory_bytes=64 * GIB, uplink_bps=1e9)
    defaults: dict[str, Any] = {
        "id": NODE,
        "facts": NodeFacts(lab="alpha", capacity=capacity),
        "phase": NodePhase.SHARING,
        "incarnation": "i1",
        "joined_s": 90.0,
        "phase_since_s": 90.0,
    }
    return Node(**{**defaults, **changes})


def a_checkpoint(**changes: Any) -> Checkpoint:
    defaults: dict[str, Any] = {
        "id": CheckpointId("job-1-e1-c1"),
        "job_id": JOB,
        "run_id": RUN,
        "epoch": 1,
        "phase": CheckpointPhase.REQUESTED,
        "requested_s": 120.0,
    }
    return Checkpoint(**{**defaults, **changes})


def an_image(**changes: Any) -> CampusImage:
    image = Image(name="torch:2.4", digest="a" * 64)
    defaults: dict[str, Any] = {
        "id": image.ref,
        "phase": ImagePhase.LISTED,
        "image": image,
        "added_s": 95.0,
        "added_by": "admin",
        "archive": Archive(digest="b" * 64, size_bytes=5 * GIB),
    }
    return CampusImage(**{**defaults, **changes})


def an_environment() -> CampusEnvironment:
    packages = package_list("pytorch", "torch==2.4.0\n")
    return CampusEnvironment(id="pytorch", packages=packages, added_s=95.0, added_by="admin")


def a_migration(**changes: Any) -> Migration:
    defaults: dict[str, Any] = {
        "id": MigrationId("job-1-m1"),
        "job_id": JOB,
        "source_run": RUN,
        "source_node": NODE,
        "cause": Cause.OWNER_RECLAIM,
        "phase": MigrationPhase.FLUSHING,
        "started_s": 130.0,
        "reserved_gpus": (0,),
    }
    return Migration(**{**defaults, **changes})


def a_durable_point(step: int = 5) -> DurablePoint:
    return DurablePoint(checkpoint_id=CheckpointId("job-1-e1-c1"), step=step, progress=0.5, at_s=121.0)


def a_commit(*changes: Any, effects: tuple[Any, ...] = (), subject: str = JOB, **rest: Any) -> Commit:
    """A commit with one reason, so that it leaves a line in the log."""
    reasons = rest.pop("reasons", (because(subject, Why.SUBMITTED, owner="admin"),))
    decision = Decision(changes=changes, effects=effects, reasons=reasons)
    defaults: dict[str, Any] = {"at_s": 100.0, "event": CoordinatorStarted(), "decision": decision}
    return Commit(**{**defaults, **rest})
