"""Places for all members of a gang at once, or for none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import Job
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.reasons.reason import Verdict
from gpunion.domain.resources import Grant
from gpunion.policy.placement.pick import NotPlaced, Placed, Scoring, place

# A new gang that has waited so long has machines kept for it; one that ran before has them at once.
GANG_PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AllPlaced:
    places: Mapping[JobId, Placed]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAllPlaced:
    found: int  # so many of them would have had a place
    verdicts: tuple[Verdict, ...]  # what each machine says to the next


def place_gang(
    members: Sequence[Job],
    views: Iterable[NodeView],
    now_s: float,
    scoring: Scoring,
    prefer: Mapping[JobId, NodeId],
) -> AllPlaced | NotAllPlaced:
    """One after the other, each on what those before it have left. They ask for the same, so each of them
    takes one of the places there are whatever the order: if all fit at all, all fit this way.

    First those whose place was kept, then on machines the gang has already: fewer owners can interrupt it.
    So where nothing was kept and one machine has room for all, that is where they go.
    """
    left = {view.node.id: view for view in views}
    places: dict[JobId, Placed] = {}
    if not prefer:
        whole = [one for one in left.values() if _takes_all(members, one, now_s, scoring)]
        left = {view.node.id: view for view in whole} or left
    for member in sorted(members, key=lambda job: (job.id not in prefer, job.id)):
        wanted = prefer.get(member.id)
        beside = [left[one.node_id] for one in places.values()] if wanted is None else []
        found = place(member, beside, now_s, scoring)
        if isinstance(found, NotPlaced):
            found = place(member, left.values(), now_s, scoring, wanted)
        if isinstance(found, NotPlaced):
            return NotAllPlaced(found=len(places), verdicts=found.verdicts)
        places[member.id] = found
        left[found.node_id] = less(left[found.node_id], found.grant)
    return AllPlaced(places=places)


def _takes_all(members: Sequence[Job], view: NodeView, now_s: float, scoring: Scoring) -> bool:
    size, first = len(members), members[0]
    enough = len(view.free_gpus) >= size * first.spec.request.gpus  # most machines are told apart by this
    return enough and room_for(first, view, now_s, scoring, size) == size


def room_for(member: Job, view: NodeView, now_s: float, scoring: Scoring, most: int) -> int:
    """So many members like this one fit a node."""
    count = 0
    while count < most and isinstance(found := place(member, [view], now_s, scoring), Placed):
        view = less(view, found.grant)
        count += 1
    return count


def less(view: NodeView, grant: Grant) -> NodeView:
    """A node as it is with one guest more."""
    held = set(grant.gpu_indices)
    return replace(
        view,
        free_gpus=tuple(gpu for gpu in view.free_gpus if gpu.index not in held),
        free_cpus=view.free_cpus - grant.cpus,
        free_memory_bytes=view.free_memory_bytes - grant.memory_bytes,
        guests=view.guests + 1,
    )


def gone_before(job: Job, view: NodeView, now_s: float, starts_s: float | None) -> bool:
    """Whether a job may use a machine that is kept for a gang: it says how long it takes, and ends before the
    gang could begin. `starts_s`: when those in the gang's way are expected to have ended; None: unknown."""
    if starts_s is None or job.spec.expected_s is None:
        return False
    done = 0.0 if job.durable is None else job.durable.progress
    speed = min((gpu.speed for gpu in view.free_gpus), default=1.0)
    takes_s = job.cost.restart_s + job.spec.expected_s * (1.0 - done) / max(speed, 1e-6)
    return now_s + takes_s <= starts_s
