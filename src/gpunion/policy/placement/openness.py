"""Whether a machine takes anybody new at all, whoever asks and for however little."""

from __future__ import annotations

from gpunion.domain.ids import JobId
from gpunion.domain.jobs.job import Job, JobPhase, JobSpec
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.resources import Request
from gpunion.policy.placement.filters import not_now


def is_open(view: NodeView, now_s: float, places: tuple[str, ...] = ()) -> bool:
    """`places`: where that somebody would keep checkpoints. What its owner's terms say of single labs and
    people is for whoever reads the answer."""
    facts = view.node.facts
    if view.node.phase is NodePhase.LEFT or not (facts.sandboxed or facts.terms.allow_unsandboxed):
        return False
    return not_now(_anybody(places), view, now_s) is None


def _anybody(places: tuple[str, ...]) -> Job:
    nothing = Request(gpus=0, cpus=0.0, memory_bytes=0)
    spec = JobSpec(name="anybody", command=(), owner="", request=nothing, places=places)
    return Job(id=JobId("anybody"), spec=spec, phase=JobPhase.PENDING, submitted_s=0.0, waiting_since_s=0.0)
