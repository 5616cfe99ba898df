"""The invariants, as far as a coordinator's own memory can show them broken.

Asked after every committed decision, by the live process, the tests and the simulator; the simulator's
checkers judge the same on the ground truth of its world.
"""

from __future__ import annotations

from gpunion.domain.account import lab_account, user_account
from gpunion.domain.checkpoint import CheckpointPhase
from gpunion.domain.decision import Decision
from gpunion.domain.effects import SendOrder
from gpunion.domain.ids import NodeId, run_id
from gpunion.domain.job import Job, JobPhase
from gpunion.domain.node import Node, NodePhase
from gpunion.domain.orders import StartRun
from gpunion.domain.run import Run
from gpunion.engine import gang_audit
from gpunion.engine.state import CampusState
from gpunion.engine.violation import Violation as Violation
from gpunion.policy.bandwidth import RECLAIM_SHARE
from gpunion.policy.quota import limit_of

_TOLERANCE = 1e-6


class BrokenInvariant(Exception):
    """A bug. Nobody catches it."""

    def __init__(self, violations: list[Violation]) -> None:
        super().__init__("; ".join(f"[{v.invariant}] {v.subject}: {v.what}" for v in violations))
        self.violations = violations


def check(state: CampusState, decision: Decision) -> list[Violation]:
    """`state` is the one after the decision. Looks only at what the decision touched."""
    found: list[Violation] = []
    for effect in decision.effects:
        if isinstance(effect, SendOrder) and isinstance(effect.order, StartRun):
            found += _started_against_terms(state, effect.node_id, effect.order)
            found += _over_quota(state, effect.order)
    for node_id in sorted(_touched_nodes(decision)):
        found += _promised_twice(state, state.nodes[node_id])
        found += _over_the_cap(state, state.nodes[node_id])
    for record in decision.changes:
        if isinstance(record, Job):
            found += _two_incarnations(state, record)
            found += _durable_step_back(state, record)
            found += _silent_interruption(record, decision)
    return found + gang_audit.check(state, decision)


def _started_against_terms(state: CampusState, node_id: NodeId, order: StartRun) -> list[Violation]:
    node = state.nodes[node_id]
    job = state.jobs[order.job_id]
    found = []
    if node.phase is not NodePhase.SHARING:
        what = f"{order.run_id} was ordered to start while the node is {node.phase.value}"
        found.append(Violation(invariant=2, subject=node_id, what=what))
    withheld = sorted({gpu.index for gpu in node.withheld} & set(order.grant.gpu_indices))
    if withheld:
        what = f"{order.run_id} was ordered to start on GPU {withheld}, which is not lent"
        found.append(Violation(invariant=2, subject=node_id, what=what))
    if not node.facts.terms.admits(job.spec.lab, job.spec.owner):
        what = f"{order.run_id} is of a lab or a person the terms do not admit"
        found.append(Violation(invariant=2, subject=node_id, what=what))
    if order.image is not None and not node.facts.may_run_in(order.image.image):
        what = f"{order.run_id} runs in an image the node cannot have, or the terms do not admit"
        found.append(Violation(invariant=2, subject=node_id, what=what))
    return found


def _over_quota(state: CampusState, order: StartRun) -> list[Violation]:
    """Counted from the runs themselves: the books could be wrong. Who held more before a quota was lowered
    may keep it, but gets no more."""
    quotas = state.memories.quotas
    if not quotas or not order.grant.gpu_indices:
        return []
    found = []
    for name in (user_account(order.user), *((lab_account(order.lab),) if order.lab else ())):
        limit = limit_of(name, quotas)
        held = _held_gpus(state, name) if limit is not None else 0
        if limit is not None and held > limit:
            what = f"{order.run_id} was started though {held} GPUs are held and {limit} allowed"
            found.append(Violation(invariant=2, subject=name, what=what))
    return found


def _held_gpus(state: CampusState, name: str) -> int:
    living = (state.runs[run_id] for runs in state.living.values() for run_id in runs)
    charges = (run.charge for run in living if run.charge is not None and run.has_gpus)
    return sum(one.gpus for one in charges if name in (user_account(one.user), lab_account(one.lab)))


def _promised_twice(state: CampusState, node: Node) -> list[Violation]:
    runs = [state.runs[living] for living in sorted(state.living.get(node.id, ()))]
    indices = [index for run in runs for index in run.held_gpus]
    found = []
    if len(indices) != len(set(indices)):
        what = f"GPUs {sorted(indices)} are held by {len(runs)} runs"
        found.append(Violation(invariant=5, subject=node.id, what=what))
    held_bytes = sum(run.grant.memory_bytes for run in runs)
    if held_bytes > node.facts.capacity.memory_bytes:
        what = f"{held_bytes} bytes of memory are promised of {node.facts.capacity.memory_bytes}"
        found.append(Violation(invariant=5, subject=node.id, what=what))
    return found


def _over_the_cap(state: CampusState, node: Node) -> list[Violation]:
    promised_bps = 0.0
    for living in state.living.get(node.id, ()):
        for checkpoint_id in state.unsettled.get(living, ()):
            checkpoint = state.checkpoints[checkpoint_id]
            promised_bps += checkpoint.rate_bps if checkpoint.final else 0.0
    cap_bps = RECLAIM_SHARE * node.facts.capacity.uplink_bps
    if promised_bps > cap_bps * (1 + _TOLERANCE):
        what = f"flushes were promised {promised_bps:.0f} bit/s, the cap is {cap_bps:.0f}"
        return [Violation(invariant=6, subject=node.id, what=what)]
    return []


def _two_incarnations(state: CampusState, job: Job) -> list[Violation]:
    living = [run for run in _runs_of(state, job) if run.living]
    if len(living) > 1:
        what = f"{', '.join(run.id for run in living)} live at the same time"
        return [Violation(invariant=3, subject=job.id, what=what)]
    if living and living[0].epoch != job.epoch:
        what = f"{living[0].id} lives though the job is at epoch {job.epoch}"
        return [Violation(invariant=3, subject=job.id, what=what)]
    return []


def _durable_step_back(state: CampusState, job: Job) -> list[Violation]:
    if job.durable is None:
        return []
    checkpoint = state.checkpoints.get(job.durable.checkpoint_id)
    if checkpoint is None or checkpoint.phase is not CheckpointPhase.DURABLE:
        what = f"{job.durable.checkpoint_id} is called durable and is not"
        return [Violation(invariant=4, subject=job.id, what=what)]
    run = state.runs.get(checkpoint.run_id)
    if run is not None and job.durable.step < run.resumed_step:
        what = f"step {job.durable.step} is durable, but {run.id} began at {run.resumed_step}"
        return [Violation(invariant=4, subject=job.id, what=what)]
    return []


def _silent_interruption(job: Job, decision: Decision) -> list[Violation]:
    if job.phase not in (JobPhase.MIGRATING, JobPhase.FAILED, JobPhase.CANCELLED):
        return []
    if any(reason.subject == job.id for reason in decision.reasons):
        return []
    if job.phase is JobPhase.MIGRATING and job.migration is not None:
        return []  # planned: its reason was given when it began
    return [Violation(invariant=8, subject=job.id, what=f"became {job.phase.value} without a reason")]


def _runs_of(state: CampusState, job: Job) -> list[Run]:
    # Only the newest two can overlap: an older one was ended before the one after it began.
    epochs = range(max(1, job.epoch - 1), job.epoch + 1)
    found = (state.runs.get(run_id(job.id, epoch)) for epoch in epochs)
    return [run for run in found if run is not None]


def _touched_nodes(decision: Decision) -> set[NodeId]:
    touched = {record.node_id for record in decision.changes if isinstance(record, Run)}
    return touched | {record.id for record in decision.changes if isinstance(record, Node)}
