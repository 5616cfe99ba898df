"""The invariants, as far as a coordinator's own memory can show them broken.

Asked after every committed decision, by the live process, the tests and the simulator; the simulator's
checkers judge the same on the ground truth of its world.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpunion.domain.ids import JobId, NodeId, run_id
from gpunion.domain.jobs.account import OF_CLASS_HIGH, lab_account, user_account
from gpunion.domain.jobs.checkpoint import CheckpointPhase
from gpunion.domain.jobs.gang import Seat, leader_of, member_ids
from gpunion.domain.jobs.job import DurablePoint, Job, JobPhase, Priority
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.effects import SendOrder
from gpunion.domain.protocol.orders import StartRun
from gpunion.engine.coordinator.state import CampusState
from gpunion.policy.bandwidth import RECLAIM_SHARE
from gpunion.policy.gangs.agreeing import Mark, mark
from gpunion.policy.quota import limit_of
from gpunion.policy.windows.sizing import LAST_PEAKS, OUT_OF_MEMORY_MOST, PEAKS_LEAST, RISK

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
            found += too_little_memory(state, effect.node_id, effect.order)
            found += _past_its_window(state, effect.order)
    for node_id in sorted(_touched_nodes(decision)):
        found += _promised_twice(state, state.nodes[node_id])
        found += _over_the_cap(state, state.nodes[node_id])
    for record in decision.changes:
        if isinstance(record, Job):
            found += _two_incarnations(state, record)
            found += _durable_step_back(state, record)
            found += _silent_interruption(record, decision)
    return found + check_gangs(state, decision)


def _started_against_terms(state: CampusState, node_id: NodeId, order: StartRun) -> list[Violation]:
    node = state.nodes[node_id]
    job = state.jobs[order.job_id]
    found = []
    if node.phase is not NodePhase.SHARING:
        what = f"{order.run_id} was ordered to start while the node is {node.phase.value}"
        found.append(Violation(invariant=2, subject=node_id, what=what))
    if node.isolated_because:
        what = f"{order.run_id} was ordered to start while the node is isolated"
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


def too_little_memory(state: CampusState, node_id: NodeId, order: StartRun) -> list[Violation]:
    """Of a job that runs in windows: less than what was seen of it says."""
    job = state.jobs[order.job_id]
    if order.subjob is None or job.profile is None:
        return []
    needs = min(job.spec.request.vram_bytes, seen_to_need_bytes(job))
    gpus = state.nodes[node_id].facts.capacity.gpus
    least = min((gpu.memory_bytes for gpu in gpus if gpu.index in order.grant.gpu_indices), default=None)
    if least is None or least >= needs:
        return []
    what = f"{order.run_id} was given {least} bytes of GPU memory and was seen to need {needs}"
    return [Violation(invariant=15, subject=job.id, what=what)]


def seen_to_need_bytes(job: Job) -> int:
    """Reckoned otherwise than by whoever sizes pieces: what but a few of those seen stayed below."""
    profile, declared = job.profile, job.spec.request.vram_bytes
    if profile is None or len(profile.peaks_bytes) < PEAKS_LEAST or not job.spec.windows.learned_vram:
        return declared
    if profile.out_of_memory >= OUT_OF_MEMORY_MOST:
        return declared
    above = int(RISK * (len(profile.peaks_bytes) + 1))  # so many may be above it
    ranked = sorted(profile.peaks_bytes, reverse=True)
    quantile_bytes = ranked[max(0, above - 1)]
    return max(quantile_bytes, *profile.peaks_bytes[-LAST_PEAKS:], profile.floor_bytes)


def _past_its_window(state: CampusState, order: StartRun) -> list[Violation]:
    """A window that was over before it was ordered."""
    subjob = order.subjob
    if subjob is None or not subjob.hard or subjob.ends_s is None:
        return []
    run = state.runs[order.run_id]
    if subjob.ends_s > run.ordered_s:
        return []
    what = f"{run.id} was ordered for a window that was over"
    return [Violation(invariant=14, subject=run.job_id, what=what)]


def _over_quota(state: CampusState, order: StartRun) -> list[Violation]:
    """Counted from the runs themselves: the books could be wrong. Who held more before a quota was lowered
    may keep it, but gets no more."""
    quotas = state.memories.quotas
    if not quotas or not order.grant.gpu_indices:
        return []
    found = []
    names = (user_account(order.user), *((lab_account(order.lab),) if order.lab else ()))
    high = state.jobs[order.job_id].spec.priority is Priority.HIGH
    for name in (*names, *(name + OF_CLASS_HIGH for name in names if high)):
        limit = limit_of(name, quotas)
        held = _held_gpus(state, name) if limit is not None else 0
        if limit is not None and held > limit:
            what = f"{order.run_id} was started though {held} GPUs are held and {limit} allowed"
            found.append(Violation(invariant=2, subject=name, what=what))
    return found


def _held_gpus(state: CampusState, name: str) -> int:
    account = name.removesuffix(OF_CLASS_HIGH)
    living = (state.runs[run_id] for runs in state.living.values() for run_id in runs)
    charges = (run.charge for run in living if run.charge is not None and run.has_gpus)
    own = (one for one in charges if account in (user_account(one.user), lab_account(one.lab)))
    return sum(one.gpus for one in own if one.high or account == name)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    invariant: int  # as numbered in ARCHITECTURE.md
    subject: str
    what: str


# A run that is being ended is not counted: that takes as long as its machine takes, or its fence.
_TO_STAY = (RunPhase.ORDERED, RunPhase.RUNNING)


def check_gangs(state: CampusState, decision: Decision) -> list[Violation]:
    found: list[Violation] = []
    touched = {job.id: job.spec.seat for job in decision.changes if isinstance(job, Job) and job.spec.seat}
    leaders = sorted({leader_of(job_id, seat) for job_id, seat in touched.items() if seat is not None})
    for leader in leaders:
        seat = state.jobs[leader].spec.seat
        if seat is not None:
            members = [state.jobs[one] for one in member_ids(leader, seat)]
            found += _partly_running(state, leader, members)
            found += _mixed_steps(state, leader, members)
    return found + _started_apart(decision)


def _partly_running(state: CampusState, leader: JobId, members: list[Job]) -> list[Violation]:
    """Between decisions no member runs, or starts, that is not being ended while another waits."""
    waiting = [one.id for one in members if one.phase.waiting]
    runs = (state.runs.get(run_id(one.id, one.epoch)) for one in members)
    staying = [run.id for run in runs if run is not None and run.phase in _TO_STAY]
    if not waiting or not staying:
        return []
    what = f"{', '.join(staying)} run(s) on while {', '.join(waiting)} wait(s)"
    return [Violation(invariant=11, subject=leader, what=what)]


def _mixed_steps(state: CampusState, leader: JobId, members: list[Job]) -> list[Violation]:
    living = [one for one in members if not one.phase.over]
    found = []
    steps = {None if one.durable is None else _mark(state, one.durable) for one in living}
    if len(steps) > 1:
        what = f"its members would go on from steps {steps}"
        found.append(Violation(invariant=12, subject=leader, what=what))
    earlier = {tuple(_mark(state, point) for point in one.earlier) for one in living}
    if len(earlier) > 1:
        what = f"its members would go back to different steps: {sorted(earlier)}"
        found.append(Violation(invariant=12, subject=leader, what=what))
    for one in living:
        points = (*one.earlier, one.durable)
        if any(point is not None and point.checkpoint_id in one.spoiled for point in points):
            what = "it would go on from a save that was of no use before"
            found.append(Violation(invariant=12, subject=one.id, what=what))
    return found


def _mark(state: CampusState, point: DurablePoint) -> Mark:
    return mark(point.step, state.checkpoints[point.checkpoint_id].requested_s)


def _started_apart(decision: Decision) -> list[Violation]:
    """Every start of a gang starts all of it, in one epoch and from one step."""
    starts: dict[JobId, list[StartRun]] = {}
    seats: dict[JobId, Seat] = {}
    for order in _starts(decision):
        if order.seat is not None:
            leader = leader_of(order.job_id, order.seat)
            starts.setdefault(leader, []).append(order)
            seats[leader] = order.seat
    found = []
    for leader, orders in starts.items():
        if len(orders) != seats[leader].size:
            what = f"{len(orders)} of its {seats[leader].size} members were started"
            found.append(Violation(invariant=11, subject=leader, what=what))
        if len({(order.epoch, order.restore_step, order.restore is None) for order in orders}) > 1:
            what = "its members were started from different steps, or in different epochs"
            found.append(Violation(invariant=12, subject=leader, what=what))
    return found


def _starts(decision: Decision) -> Iterable[StartRun]:
    for effect in decision.effects:
        if isinstance(effect, SendOrder) and isinstance(effect.order, StartRun):
            yield effect.order
