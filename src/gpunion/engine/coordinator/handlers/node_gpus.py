"""What an owner said of single GPUs of a node, as its agent reports it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import Node
from gpunion.domain.nodes.withheld import (
    GpuPhase,
    HoldCause,
    WithheldGpu,
    with_gpu,
    withheld_of,
    without_gpus,
)
from gpunion.domain.protocol.reports import GpusKeptFree, NodePaused, NodeReclaimed, NodeResumed, NoticeGiven
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.handlers import parked_runs
from gpunion.engine.coordinator.handlers.nodes import stay_if_they_can


def said(
    draft: Draft,
    node_id: NodeId,
    report: NoticeGiven | NodeReclaimed | NodePaused | NodeResumed | GpusKeptFree,
) -> None:
    node = draft.state.nodes.get(node_id)
    if node is None:
        draft.because(node_id, Why.UNKNOWN_NODE)
        return
    match report:
        case NoticeGiven():
            _notice_given(draft, node, report)
        case NodeReclaimed():
            _reclaimed(draft, node, report)
        case NodePaused():
            _paused(draft, node, report)
        case GpusKeptFree():
            _kept_free(draft, node, report)
        case NodeResumed():
            _resumed(draft, node, report)


def _notice_given(draft: Draft, node: Node, report: NoticeGiven) -> None:
    parked_runs.announced(draft, report)
    wanted = [
        WithheldGpu(
            index=index,
            phase=GpuPhase.RECLAIMING,
            cause=report.cause,
            detail=report.detail,
            asked_s=draft.now_s,
            deadline_s=report.deadline_s,
        )
        for index in report.gpus
    ]
    _withhold(draft, node, wanted)
    gpus, notice_s = _shown(report.gpus), max(0.0, report.deadline_s - draft.now_s)
    match report.cause:
        case HoldCause.OWNER:
            draft.because(node.id, Why.OWNER_WANTS_GPU, node=node.id, gpus=gpus, notice_s=notice_s)
        case HoldCause.TERMS:
            detail = f"GPU {gpus}: {report.detail or 'no detail given'}"
            draft.because(node.id, Why.TERMS_END_LENDING, node=node.id, detail=detail, notice_s=notice_s)
        case HoldCause.OWN_WORK:
            detail = report.detail or "a process of theirs"
            draft.because(
                node.id, Why.OWNER_COMPUTES, node=node.id, gpus=gpus, detail=detail, notice_s=notice_s
            )
        case HoldCause.SICK:
            detail = report.detail or "no detail given"
            draft.because(node.id, Why.GPU_SICK, node=node.id, gpus=gpus, detail=detail)


def _reclaimed(draft: Draft, node: Node, report: NodeReclaimed) -> None:
    known = [_of(node, index, GpuPhase.RECLAIMED) for index in report.gpus]
    _withhold(draft, node, [replace(gpu, phase=GpuPhase.RECLAIMED, deadline_s=None) for gpu in known])
    gpus = _shown(report.gpus)
    draft.because(node.id, Why.GPU_FREE, gpus=gpus, freed_after_s=report.freed_after_s)


def _paused(draft: Draft, node: Node, report: NodePaused) -> None:
    known = [_of(node, index, GpuPhase.PAUSED) for index in report.gpus]
    _withhold(draft, node, [replace(gpu, cause=HoldCause.OWNER) for gpu in known])
    draft.because(node.id, Why.GPU_PAUSED, node=node.id, gpus=_shown(report.gpus))


def _kept_free(draft: Draft, node: Node, report: GpusKeptFree) -> None:
    held = [gpu for gpu in node.withheld if gpu.index in report.gpus and gpu.cause is HoldCause.OWN_WORK]
    _withhold(draft, node, [replace(gpu, until_s=report.until_s) for gpu in held])


def _resumed(draft: Draft, node: Node, report: NodeResumed) -> None:
    node = replace(node, withheld=without_gpus(node.withheld, report.gpus))
    draft.put(node)
    draft.because(node.id, Why.GPU_BACK, node=node.id, gpus=_shown(report.gpus))
    stay_if_they_can(draft, node)


def _of(node: Node, index: int, otherwise: GpuPhase) -> WithheldGpu:
    return withheld_of(node.withheld, index) or WithheldGpu(index=index, phase=otherwise)


def _withhold(draft: Draft, node: Node, gpus: Iterable[WithheldGpu]) -> None:
    withheld = node.withheld
    for gpu in gpus:
        withheld = with_gpu(withheld, gpu)
    draft.put(replace(node, withheld=withheld))


def _shown(gpus: Iterable[int]) -> str:
    return ", ".join(map(str, gpus))
