"""Whole guests: what the coordinator learns from bringing them back, and when it stops trying."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpunion.domain.ids import CheckpointId, NodeId
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.run import Run
from gpunion.domain.nodes.node import Node, NodeFacts, NodePhase
from gpunion.domain.protocol.reports import RunEnded, RunStarted
from gpunion.domain.reasons.reason import Verdict, Why
from gpunion.domain.system_tier import Tier, architecture, learned
from gpunion.engine.coordinator.capacity import view
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.runs import checkpoint_fallback as going_back
from gpunion.engine.coordinator.runs.retry_limits import Trouble, reached
from gpunion.engine.coordinator.state import CampusState
from gpunion.policy.placement.filters import not_brought_back, refusal

# A machine that could may be away for a while. What is lost by waiting is known, what is lost by not: more.
DUMP_PATIENCE_S = 600.0

_NOT_HERE = (Why.CANNOT_DUMP, Why.OTHER_ARCHITECTURE, Why.OTHER_GPU, Why.RESTORE_FAILED_BEFORE)


def came_to_life(draft: Draft, run: Run, report: RunStarted) -> None:
    if report.tier is not Tier.SYSTEM:
        return
    _remember(draft, run, _kind(draft, report.restored), worked=True)
    job = draft.job_of(run)
    if job.dump_failures:
        draft.put(replace(job, dump_failures=0))


def did_not(draft: Draft, job: Job, run: Run, report: RunEnded) -> Job:
    """The node is told apart from the dump: it may be that neither pair works, or this guest nowhere."""
    if report.why is not Why.DUMP_REFUSED_THERE:
        return job
    if job.dump is not None:
        _remember(draft, run, job.dump.kind, worked=False)
    if job.spec.session is not None:
        return _from_its_variables(draft, job)
    job = replace(job, dump_failures=job.dump_failures + 1)
    if not reached(Trouble.DUMP_REFUSED, job.dump_failures):
        return job
    if job.dump is None:  # its agent found one sealed that nobody was told of
        draft.because(job.id, Why.DUMP_GIVEN_UP)
        return replace(job, dumps_given_up=True, dump_failures=0)
    return going_back.before_the_dump(draft, job) or give_up(draft, job)


def _from_its_variables(draft: Draft, job: Job) -> Job:
    """What its program saved right before is in the same checkpoint, and can be read anywhere."""
    draft.because(job.id, Why.DUMP_GIVEN_UP)
    durable = None if job.durable is None else replace(job.durable, tier=Tier.APP)
    return replace(job, dumps_given_up=True, durable=durable, dump_failures=0)


def give_up(draft: Draft, job: Job) -> Job:
    """What was acknowledged is lost here, knowingly: better told and gone on than waited for for ever."""
    draft.because(job.id, Why.DUMP_GIVEN_UP)
    return replace(job, dumps_given_up=True, durable=None, dump_failures=0)


def waited_long(draft: Draft, job: Job) -> bool:
    return job.dump is not None and draft.now_s - job.waiting_since_s >= DUMP_PATIENCE_S


def give_up_if_in_vain(draft: Draft, job: Job, verdicts: Iterable[Verdict]) -> Job:
    """Only where a machine would take it that cannot bring it back: else there is nothing to gain by it."""
    if not any(_kept_out_by_it(draft, job, verdict) for verdict in verdicts):
        return job
    # What its program saved before is read anywhere: it is known, and need not be looked for.
    earlier = going_back.before_the_dump(draft, job) if job.tier is Tier.APP else None
    return earlier or give_up(draft, job)


def _kept_out_by_it(draft: Draft, job: Job, verdict: Verdict) -> bool:
    if verdict.refusal is None or verdict.refusal.why not in _NOT_HERE:
        return False
    without = replace(job, dumps_given_up=True, durable=None)
    return refusal(without, view(draft, NodeId(verdict.node)), draft.now_s) is None


def may_be_whole(draft: Draft, job: Job, run: Run) -> bool:
    """Of a run on its node: it may be dumped there as it stands if there is somewhere it could go on from
    that, and what was dumped may be brought back there."""
    return may_be_dumped(draft.state, job, run)


def may_be_dumped(state: CampusState, job: Job, run: Run) -> bool:
    here = state.nodes[run.node_id]
    if job.dumps_given_up or job.spec.seat is not None or not here.facts.system.able:
        return False
    cards = [gpu for gpu in here.facts.capacity.gpus if gpu.index in run.grant.gpu_indices]
    if any(gpu.card for gpu in cards):
        return False  # a driver dumps whole cards only
    real = {gpu.model for gpu in cards if not gpu.declared}
    if len(cards) > 1 and real:
        return False  # they talk to each other, and that is not dumped
    if job.dump is not None:
        return job.spec.session is None or not_brought_back(job, here) is None
    others = (node for node in state.nodes.values() if node.id != here.id)
    return any(_could_take(node, here, real) for node in others)


def _could_take(node: Node, source: Node, models: set[str]) -> bool:
    there, system = node.facts, source.facts.system
    alike = architecture(there.system.kind) == architecture(system.kind)
    has_cards = models <= {gpu.model for gpu in there.capacity.gpus}
    return node.phase is not NodePhase.LEFT and there.system.able and alike and has_cards


def with_facts(node: Node, facts: NodeFacts) -> Node:
    """What was tried holds for a machine as it was then."""
    same = node.facts.system.kind == facts.system.kind
    return replace(node, facts=facts, restores=node.restores if same else ())


def _remember(draft: Draft, run: Run, kind: str, *, worked: bool) -> None:
    node = draft.state.nodes[run.node_id]
    if kind and kind != node.facts.system.kind:  # of its own kind it needs no proof
        draft.put(replace(node, restores=learned(node.restores, kind, worked=worked)))


def _kind(draft: Draft, checkpoint_id: CheckpointId | None) -> str:
    checkpoint = None if checkpoint_id is None else draft.state.checkpoints.get(checkpoint_id)
    return "" if checkpoint is None else checkpoint.kind
