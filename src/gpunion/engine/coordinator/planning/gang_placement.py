"""Places for a waiting gang: all members in one decision, or none; and machines kept for one that waits long.

Nothing is ever held for a part of a gang, so two of them cannot each wait for what the other has. What keeps
a gang from waiting for ever is that the machines it is nearest to getting take no newcomers that would stay.
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.gang import Seat
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.nodes.node import DiskRoom, NodePhase
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.reasons.reason import Reason, Why, because
from gpunion.engine.coordinator.capacity import view, views
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import accounts
from gpunion.engine.coordinator.planning.refusals import blockers
from gpunion.engine.coordinator.planning.reservations import KEPT_MOST, Kept
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.windows import promises
from gpunion.policy.gangs.placing import GANG_PATIENCE_S, AllPlaced, NotAllPlaced, place_gang, room_for
from gpunion.policy.placement.filters import has_room, refusal
from gpunion.policy.placement.pick import Placed


def find(draft: Draft, job: Job, kept: Kept) -> list[tuple[Job, Placed]]:
    """A place for each member; nothing where not all have one."""
    members = gangs.members(draft, job)
    leader = members[0]
    if leader.id in kept.gangs or not gangs.all_seek(draft, job):
        return []
    kept.gangs.add(leader.id)
    prefer = _free_own_places(draft, members)
    over = accounts.held_back(draft, gangs.as_one(job))
    if over is not None:
        _say(draft, members, over)
        return []
    promised = {one.id: one.promised.node_id for one in members if one.promised is not None}
    if not _come_true(draft, members):
        return []
    members, prefer = gangs.members(draft, job), prefer | promised
    able = [one for one in views(draft) if has_room(job.spec.request, one) and kept.free_for(job, one)]
    found = place_gang(_alike(members), able, draft.now_s, draft.policies.scoring, prefer)
    if isinstance(found, AllPlaced):
        return [(one, found.places[one.id]) for one in members]
    for one_id, node_id in promised.items():
        draft.because(one_id, Why.PROMISE_DROPPED, node=node_id)
    _say(draft, members, _waits(draft, job))
    _keep(draft, members, kept)
    return []


def impossible(draft: Draft, job: Job, seat: Seat) -> bool:
    """Told why, where even with nobody else on them the machines there are could not have all members."""
    there = [_emptied(draft, here.node.id) for here in views(draft)]
    room = {here.node.id: _room(draft, job, here, seat.size) for here in there}
    found = sum(room.values())
    if found >= seat.size or not there:
        return False
    draft.because(job.id, Why.GANG_IMPOSSIBLE, size=seat.size, found=found)
    for here in there:
        here_id = here.node.id
        refused = None if room[here_id] else refusal(job, here, draft.now_s)
        draft.add_reason(refused or because(here_id, Why.GANG_ROOM, room=room[here_id], size=seat.size))
    return True


def waits_because(draft: Draft, job: Job) -> list[Reason]:
    """What a gang waits for besides its turn, as of now."""
    return [] if job.spec.seat is None else [_waits(draft, job)]


def _come_true(draft: Draft, members: list[Job]) -> bool:
    """Whether what they were promised is free: of all of them, or none of it is waited for any longer."""
    if all(one.promised is None for one in members):
        return True
    if all(one.promised is not None for one in members):
        if not all(promises.is_free(draft, one.promised) for one in members if one.promised is not None):
            return False
        for one in members:
            draft.put(replace(one, promised=None))
        return True
    for one in members:
        if one.promised is not None:
            promises.drop(draft, one)
    return True


def _free_own_places(draft: Draft, members: list[Job]) -> dict[JobId, NodeId]:
    """What was kept for them is free for them now; where it was, they would rather be."""
    prefer = {}
    for one in members:
        migration = moving.migration_of(draft, one)
        if migration is not None and migration.destination is not None:
            prefer[one.id] = migration.destination
            if migration.reserved_gpus:
                draft.put(replace(migration, reserved_gpus=()))
    return prefer


def _alike(members: list[Job]) -> list[Job]:
    """A machine that refused one of them refuses the others too, so that they all ask for the same."""
    avoid = tuple(dict.fromkeys(avoided for one in members for avoided in one.avoid))
    return [replace(one, avoid=avoid) for one in members] if avoid else members


def _keep(draft: Draft, members: list[Job], kept: Kept) -> None:
    """The machines that are nearest to having room for all: most of it free already, the rest when those who
    are there have ended. Not more gangs at once than single jobs have it."""
    first = members[0]
    ran_before = first.phase is JobPhase.MIGRATING
    waited_s = draft.now_s - min(one.waiting_since_s for one in members)
    due = ran_before or waited_s > GANG_PATIENCE_S or _room_is_made(draft, first)
    if len(kept.gangs) > KEPT_MOST or not due:
        return
    size = len(members)
    near = []
    for node in draft.state.nodes.values():
        roomy = node.facts.disk is DiskRoom.FINE  # else nobody knows when it will do
        roomy = roomy and not node.isolated_because  # nor here
        if node.phase is NodePhase.SHARING and not node.unheard and roomy and node.id not in kept.nodes:
            most = _room(draft, first, _emptied(draft, node.id), size)
            if most:
                free = _room(draft, first, view(draft, node.id), size)
                near.append((-free, -most, node.id, most))
    chosen: list[NodeId] = []
    found = 0
    for _, _, node_id, most in sorted(near):
        if found < size:
            chosen.append(node_id)
            found += most
    if found >= size:
        kept.keep_all_for(draft, chosen)


def _room_is_made(draft: Draft, leader: Job) -> bool:
    """Others are being driven out for it, one after another: the first place must not be taken meanwhile."""
    return any(draft.state.migrations[one].room_for == leader.id for one in draft.state.moving)


def _emptied(draft: Draft, node_id: NodeId) -> NodeView:
    """A machine as if nobody were on it, its disk had room and its owner lent all of it."""
    here = view(draft, node_id)
    facts = replace(here.node.facts, disk=DiskRoom.FINE)
    lent = replace(
        here.node, phase=NodePhase.SHARING, withheld=(), known_end_s=None, unheard=False, facts=facts
    )
    return NodeView(
        node=lent,
        free_gpus=lent.facts.lent_gpus,
        free_cpus=lent.facts.lent_cpus,
        free_memory_bytes=here.lent_memory_bytes,
        guests=0,
    )


def _room(draft: Draft, member: Job, here: NodeView, most: int) -> int:
    alike = replace(member, avoid=())
    return room_for(alike, here, draft.now_s, draft.policies.scoring, most)


def _waits(draft: Draft, job: Job) -> Reason:
    members = _alike(gangs.members(draft, job))
    found = place_gang(members, views(draft), draft.now_s, draft.policies.scoring, {})
    places, told = len(members), "nothing keeps it but its turn"
    if isinstance(found, NotAllPlaced):
        places = found.found
        told = blockers(found.verdicts)
    return because(job.id, Why.GANG_WAITS, found=places, size=len(members), blockers=told)


def _has_just_begun(draft: Draft, one: Job) -> bool:
    return one.waiting_since_s == draft.now_s or one.id in draft.seeking


def _say(draft: Draft, members: list[Job], reason: Reason) -> None:
    """Once, when the waiting begins; `why` shows the rest live."""
    if any(_has_just_begun(draft, one) for one in members):
        for one in members:
            draft.add_reason(replace(reason, subject=one.id))
