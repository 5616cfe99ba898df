"""How a guest could leave its GPUs for a job of a higher class, and what each way takes, by what was seen."""

from __future__ import annotations

from collections.abc import Iterator

from gpunion.domain.ids import checkpoint_id
from gpunion.domain.jobs.checkpoint import CheckpointPhase, CheckpointTrouble
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.migration import Way
from gpunion.domain.jobs.run import Run
from gpunion.domain.nodes.node import Node, Pace
from gpunion.domain.system_tier import Tier
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.runs import whole_guests as dumps
from gpunion.engine.coordinator.runs.save_timer import saved_s
from gpunion.policy.bandwidth import reclaim_cap_bps
from gpunion.policy.preemption import Leaving

# Until it was seen on a machine: some gigabytes through a driver, and onto a disk.
USUAL_PARK = Pace(took_s=5.0, size_bytes=0)
USUAL_DUMP = Pace(took_s=10.0, size_bytes=0)
# Saves that came to nothing for a reason of their machine's or vault's say nothing of the program.
SAVES_LOOKED_AT = 4
_ITS_OWN_DOING = (CheckpointTrouble.NOT_ANSWERED, CheckpointTrouble.NOT_SAVED)


def ways_to_leave(draft: Draft, node: Node, run: Run) -> tuple[Leaving, ...]:
    """Those that work, as far as is known. None of them loses anything, but where that is all there is and
    its user has allowed it."""
    job = draft.job_of(run)
    found = [one for one in _without_a_loss(draft, node, run) if one.way not in run.ways_failed]
    if not found and job.spec.preemptible and job.spec.seat is None:
        lost_s = draft.now_s - saved_s(draft, run)
        found = [Leaving(way=Way.UNSAVED, free_s=0.0, lost_s=lost_s, back_s=job.cost.restart_s)]
    return tuple(found)


def not_parkable_because(draft: Draft, node: Node, run: Run) -> str:
    """In words, for who runs it and for whom it does not make room; empty: it can be parked."""
    if draft.job_of(run).spec.seat is not None:
        return "it is a member of a gang"
    if not run.grant.gpu_indices:
        return "it has no GPU"
    if any(gpu.card for gpu in node.facts.capacity.gpus if gpu.index in run.grant.gpu_indices):
        return "it has a slice of a card, and the driver moves whole ones"
    if not node.facts.terms.park:
        return "the owner of its machine gives no memory for it"
    if not node.facts.parks:
        return "the driver there cannot move what a guest has on a GPU"
    return "it was tried, and did not work" if Way.PARK in run.ways_failed else ""


def _without_a_loss(draft: Draft, node: Node, run: Run) -> Iterator[Leaving]:
    job = draft.job_of(run)
    sent_s = 8.0 * job.cost.ship_bytes / max(reclaim_cap_bps(node.facts.lent_uplink_bps), 1.0)
    if not not_parkable_because(draft, node, run):
        took_s = (node.parks or USUAL_PARK).expected_s(run.parked_bytes)
        back_s = (node.unparks or node.parks or USUAL_PARK).expected_s(run.parked_bytes)
        yield Leaving(way=Way.PARK, free_s=took_s, back_s=back_s)
    if job.tier is Tier.SYSTEM and node.facts.system.able:
        if _answers(draft, run):
            save_s, back_s, proven = job.cost.save_s, job.cost.restart_s, job.dump is not None
            yield Leaving(way=Way.DUMP, free_s=save_s, sent_s=sent_s, back_s=back_s, proven=proven)
        return
    if dumps.may_be_whole(draft, job, run):
        dump_s = _dump_s(job, node)
        sent_whole_s = max(sent_s, _sent_whole_s(job, node))
        yield Leaving(way=Way.DUMP, free_s=dump_s, sent_s=sent_whole_s, back_s=job.cost.restart_s)
    if _answers(draft, run):
        proven = job.durable is not None and job.durable.tier is Tier.APP
        save_s, back_s = job.cost.save_s, job.cost.restart_s
        yield Leaving(way=Way.SAVE, free_s=save_s, sent_s=sent_s, back_s=back_s, proven=proven)


def _dump_s(job: Job, node: Node) -> float:
    size_bytes = 0 if job.dump is None else job.dump.size_bytes
    return (node.dumps or USUAL_DUMP).expected_s(size_bytes)


def _sent_whole_s(job: Job, node: Node) -> float:
    """A dump weighs what its program weighs: as the last one did, or as much as it may have."""
    size_bytes = job.spec.request.memory_bytes if job.dump is None else job.dump.size_bytes
    return 8.0 * size_bytes / max(reclaim_cap_bps(node.facts.lent_uplink_bps), 1.0)


def _answers(draft: Draft, run: Run) -> bool:
    """Not a guest of which the last save that anything came of failed by its own doing: it would be asked in
    vain, and somebody waits. One that works again shows that it can."""
    oldest = max(0, run.checkpoints - SAVES_LOOKED_AT)
    for number in range(run.checkpoints, oldest, -1):
        save = draft.state.checkpoints.get(checkpoint_id(run.id, number))
        if save is None:
            continue
        if save.phase is CheckpointPhase.DURABLE:
            return True
        if save.phase is CheckpointPhase.FAILED and save.trouble in _ITS_OWN_DOING:
            return False
    return True
