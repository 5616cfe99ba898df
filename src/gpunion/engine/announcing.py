"""What is told to whoever runs something on a machine, as soon as it is wanted: who wants it, how soon, and
what will happen. Once for each deadline: the planner comes by after every event."""

from __future__ import annotations

from gpunion.domain.node import Node
from gpunion.domain.reasons import Why
from gpunion.domain.replacing import replace
from gpunion.domain.run import Run
from gpunion.domain.withheld import GpuPhase, HoldCause, WithheldGpu
from gpunion.engine.departing import Later
from gpunion.engine.draft import Draft


def say_who_wants_it(draft: Draft, node: Node, run: Run, deadline_s: float) -> bool:
    """Whether that was news."""
    if run.told_of_s == deadline_s:
        return False
    draft.put(replace(run, told_of_s=deadline_s))
    _say_who_wants_it(draft, node, run, max(0.0, deadline_s - draft.now_s))
    return True


def say_it_works_on(draft: Draft, node: Node, run: Run, later: Later, deadline_s: float) -> None:
    """Its turn to be saved comes later: nobody should hear of the notice only then."""
    if not say_who_wants_it(draft, node, run, deadline_s):
        return
    why = Why.LEAVES_IN_TURN if later.has_place else Why.WORKS_ON_TO_THE_END
    draft.because(run.job_id, why, node=node.id, works_s=max(0.0, later.latest_s))


def say_it_may_stay(draft: Draft, run: Run) -> None:
    """To whom it had been told otherwise."""
    if run.told_of_s is not None:
        draft.put(replace(run, told_of_s=None))
        draft.because(run.job_id, Why.MAY_STAY, node=run.node_id)


def wanted_gpus(node: Node, run: Run) -> list[WithheldGpu]:
    held = run.held_gpus
    return [g for g in node.withheld if g.index in held and g.phase is GpuPhase.RECLAIMING]


def _say_who_wants_it(draft: Draft, node: Node, run: Run, notice_s: float) -> None:
    gpus = wanted_gpus(node, run)
    by_terms = _terms_want_it(node, run, gpus)
    if by_terms is not None:
        why, detail = by_terms
        draft.because(run.job_id, why, node=node.id, detail=detail, notice_s=notice_s)
        return
    if not gpus or node.deadline_s is not None:
        late_s = 0.0 if node.deadline_s is None else draft.now_s - node.deadline_s
        if late_s > draft.timing.heartbeat_s:  # who is in touch is heard sooner
            draft.because(run.job_id, Why.OWNER_TOOK_NODE, node=node.id, ago_s=late_s)
        else:
            draft.because(run.job_id, Why.OWNER_WANTS_NODE, node=node.id, notice_s=notice_s)
        return
    indices = ", ".join(str(gpu.index) for gpu in gpus)
    if any(gpu.cause is HoldCause.OWNER for gpu in gpus):
        draft.because(run.job_id, Why.OWNER_WANTS_GPU, node=node.id, gpus=indices, notice_s=notice_s)
        return
    detail = gpus[0].detail or "a process of theirs"
    draft.because(
        run.job_id, Why.OWNER_COMPUTES, node=node.id, gpus=indices, detail=detail, notice_s=notice_s
    )


def _terms_want_it(node: Node, run: Run, gpus: list[WithheldGpu]) -> tuple[Why, str] | None:
    """Where it is not the owner's word but their terms: which of them."""
    if node.deadline_s is not None:
        return (Why.TERMS_END_LENDING, node.wanted_why) if node.wanted_why else None
    if run.wanted_by_s is not None:
        return Why.TERMS_END_STAY, run.wanted_why or "no detail given"
    if gpus and all(gpu.cause is HoldCause.TERMS for gpu in gpus):
        return Why.TERMS_END_STAY, "; ".join(gpu.because() for gpu in gpus)
    return None
