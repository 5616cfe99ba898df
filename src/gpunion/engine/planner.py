"""After every event: what should happen that is not happening yet?

Reconciles instead of following a script, so that a destination reclaimed in mid-move is no special case:
wanted nodes are emptied, waiting jobs placed, jobs that fare better at home sent there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpunion.domain.ids import JobId, NodeId, run_id
from gpunion.domain.job import Job, JobPhase
from gpunion.domain.migration import Migration, MigrationPhase
from gpunion.domain.orders import StartRun, StopRun
from gpunion.domain.peer import key_of_run
from gpunion.domain.reasons import Reason, Verdict, Why
from gpunion.domain.replacing import replace
from gpunion.domain.run import Run, RunPhase
from gpunion.domain.snapshot import NodeView
from gpunion.engine import (
    accounts,
    dumps,
    gang_moves,
    gang_places,
    homeward,
    moving,
    neighbours,
    preempting,
    staging,
    triage,
)
from gpunion.engine.capacity import hopeful, in_vain, view, views
from gpunion.engine.draft import Draft
from gpunion.engine.going_back import kept_from
from gpunion.engine.keeping import Kept
from gpunion.engine.refusals import blockers
from gpunion.engine.wishes import Line, Waiting, Wish
from gpunion.lifecycle.job import JOB
from gpunion.lifecycle.migration import MIGRATION
from gpunion.policy.ordering import URGENT, Queue
from gpunion.policy.placement.filters import FOR_GOOD, has_room, refusal
from gpunion.policy.placement.pick import NotPlaced, Placed, place


def reconcile(draft: Draft) -> None:
    """Nobody need ask where nothing has `changed` that could let a job be placed or moved."""
    neighbours.warn(draft)
    triage.empty_wanted_nodes(draft)
    gang_moves.follow(draft)
    if draft.may_place:
        _place_waiting(draft)
        preempting.make_room(draft)
    if draft.freed:
        homeward.send(draft)
    gang_moves.follow(draft)  # of a member that was sent home or made room just now
    _keep_looking(draft)


def look_again_later(draft: Draft) -> None:
    draft.look_again = True


def verdicts(draft: Draft, job: Job) -> tuple[Verdict, ...]:
    """For people: nobody is to read from a score whether a machine's owner is there."""
    unseen = [replace(one, node=replace(one.node, signs=None)) for one in views(draft)]
    return place(job, unseen, draft.now_s, draft.policies.scoring).verdicts


def impossible(draft: Draft, job: Job) -> bool:
    """There are nodes, and none of them could ever run it. Asks only until one of them might."""
    asked = False
    for one in draft.state.nodes:
        refused = refusal(job, view(draft, one), draft.now_s)
        if refused is None or refused.why not in FOR_GOOD:
            return False
        asked = asked or refused.why is not Why.NODE_LEFT
    return asked


@dataclass(frozen=True, slots=True)
class _Turns:
    """Whose turn may change anything in this pass."""

    jobs: list[Waiting] = field(default_factory=list)  # by their keys
    begun: frozenset[JobId] = frozenset()  # to wait, in this very decision: each is told of it once
    keeps: bool = False  # who asks for several GPUs and has waited for too long may have a node kept for it
    only_hope: bool = False  # nobody has a turn but for a node that came free and may do


def _place_waiting(draft: Draft) -> None:
    room, ordering = draft.state.room, draft.policies.ordering
    line = room.wishes.line(ordering)
    turns = _worth_a_turn(draft, line)
    if not turns.jobs:
        return
    hopeless: set[Wish] = set()  # what did not fit once in this pass fits nobody else: room only shrinks
    # Where shares decide, also who gets no turn counts for the order of the others.
    ordered = [one.job for one in (line.jobs if ordering.fair else turns.jobs)]
    called = {one.job.id for one in turns.jobs} if ordering.fair else None
    queue, kept = Queue(_place_at_home(draft, ordered), ordering, accounts.shares(draft)), Kept()
    for job in queue:
        if called is not None and job.id not in called:
            continue
        if job.spec.seat is not None:
            if _start_gang(draft, job, kept):
                queue.served()
            continue
        here = room.wishes.waiting(ordering, job)
        wish = here.wish
        vain = here.plain and in_vain(draft, wish)
        if vain and job.id not in turns.begun and not (turns.keeps and wish.request.gpus > 1):
            continue
        migration = moving.migration_of(draft, job)
        if migration is not None and migration.phase is not MigrationPhase.SEEKING:
            continue
        reserved = migration is not None and bool(migration.reserved_gpus)
        if wish in hopeless and not reserved:
            _say_waiting(draft, job)
            continue
        if (
            reserved and migration is not None
        ):  # free for it now, and for others while its quota holds it back
            draft.put(replace(migration, reserved_gpus=()))
        over = accounts.held_back(draft, job)
        if over is not None:
            _say_held_back(draft, job, over)
            continue
        prefer = None if migration is None else migration.destination
        asked = [] if vain else _worth_asking(draft, job, wish)
        able = [one for one in asked if has_room(job.spec.request, one) and kept.free_for(job, one)]
        found = place(job, able, draft.now_s, draft.policies.scoring, prefer)
        if isinstance(found, NotPlaced) and dumps.waited_long(draft, job):
            draft.put(dumps.give_up_if_in_vain(draft, job, verdicts(draft, job)))
        elif isinstance(found, NotPlaced):
            hopeless.add(wish)
            if not kept.nodes:  # what is kept for somebody may be free for others the next time
                wish.hopeless_at = room.version
            kept.keep_for(draft, job)
            _say_waiting(draft, job)
        else:
            _start(draft, job, found)
            queue.served()
            if turns.only_hope and not hopeful(draft, line.asked):
                return  # what had come free is taken


def _worth_a_turn(draft: Draft, line: Line) -> _Turns:
    """What they ask for is looked at once for all who ask the same."""
    changed = draft.changed_jobs()
    begun = frozenset([job.id for job in changed if job.phase.waiting and _has_just_begun(draft, job)])
    begun |= draft.seeking
    may_do = hopeful(draft, line.asked)
    if line.all_plain and not begun and not may_do:
        return _Turns()
    keeps = _keeps(draft, line)
    if draft.state.room.reserved:  # what is given back in the middle of the pass may fit anybody
        return _Turns(jobs=list(line.jobs), begun=begun, keeps=keeps)
    if line.all_plain and not begun and not keeps and not line.gangs:
        return _Turns(jobs=[one for one in line.jobs if one.wish in may_do], only_hope=True)
    jobs = [
        one
        for one in line.jobs
        if one.wish in may_do
        or not one.plain
        or one.job.id in begun
        or one.job.spec.seat is not None
        or (keeps and one.wish.request.gpus > 1)
    ]
    return _Turns(jobs=jobs, begun=begun, keeps=keeps)


def _keeps(draft: Draft, line: Line) -> bool:
    ordering, now_s = draft.policies.ordering, draft.now_s
    wide = [one.job for one in line.jobs if one.wish.request.gpus > 1] if ordering.fair else []
    return any(ordering.lane(job, now_s)[1] == URGENT for job in wide)


def _has_just_begun(draft: Draft, job: Job) -> bool:
    """To wait for a place, in this very decision: many may begin at one moment, and each is told once."""
    return job.id in draft.seeking or (job.waiting_since_s == draft.now_s and draft.has_put(job))


def _place_at_home(draft: Draft, ordered: list[Job]) -> list[Job]:
    """A lab's own jobs on its own machines before anybody else's; returns those who still wait."""
    homes = _free_homes(draft, {job.spec.lab for job in ordered}) if draft.policies.ordering.fair else {}
    tried: set[Wish] = set()
    for job in ordered if homes else ():
        home, wish = homes.get(job.spec.lab), _wish(draft, job)
        if home is None or wish in tried or not _looks_for_any_place(draft, job):
            continue
        if accounts.held_back(draft, job) is not None:
            continue
        able = [one for node_id in home if has_room(job.spec.request, one := view(draft, node_id))]
        found = place(job, able, draft.now_s, draft.policies.scoring)
        if isinstance(found, NotPlaced):
            tried.add(wish)
        else:
            _start(draft, job, found)
    return [job for job in ordered if job.id in draft.state.waiting] if homes else ordered


def _looks_for_any_place(draft: Draft, job: Job) -> bool:
    """Not whoever is still being saved, or was promised a place elsewhere."""
    migration = moving.migration_of(draft, job)
    if job.spec.seat is not None:
        return False  # all members are placed at once
    return migration is None or (migration.phase is MigrationPhase.SEEKING and not migration.reserved_gpus)


def _start_gang(draft: Draft, job: Job, kept: Kept) -> bool:
    """When the turn comes to its first member: all of them, or none."""
    if job.id not in draft.state.waiting:
        return False  # another member's turn came first
    found = gang_places.find(draft, job, kept)
    for member, place_of in found:
        _start(draft, member, place_of)
    return bool(found)


def _free_homes(draft: Draft, labs: set[str]) -> dict[str, list[NodeId]]:
    homes: dict[str, list[NodeId]] = {}
    for node in draft.state.nodes.values():
        lab = node.facts.lab
        if lab and lab in labs and view(draft, node.id).free_gpus:
            homes.setdefault(lab, []).append(node.id)
    return homes


def _wish(draft: Draft, job: Job) -> Wish:
    return draft.state.room.wishes.waiting(draft.policies.ordering, job).wish


def _worth_asking(draft: Draft, job: Job, wish: Wish) -> list[NodeView]:
    """All nodes; or, where none of them would do the last time, those that changed since.

    A refusal that wears off with time is in `avoid`, and who has just begun to wait is told of them all."""
    if job.avoid or _has_just_begun(draft, job) or wish.hopeless_at is None:
        return views(draft)
    changed = draft.state.room.changed_since(wish.hopeless_at)
    return [view(draft, node_id) for node_id in changed if node_id in draft.state.nodes]


def _say_waiting(draft: Draft, job: Job) -> None:
    if not _has_just_begun(draft, job):  # once, when the waiting begins; `why` shows the rest live
        return
    over = accounts.held_back(draft, job)
    if over is None:
        draft.because(job.id, Why.WAITING, blockers=blockers(verdicts(draft, job)))
    else:
        draft.add_reason(over)


def _say_held_back(draft: Draft, job: Job, over: Reason) -> None:
    if _has_just_begun(draft, job):
        draft.add_reason(over)


def _start(draft: Draft, job: Job, found: Placed) -> None:
    epoch = job.epoch + 1
    run = Run(
        id=run_id(job.id, epoch),
        job_id=job.id,
        node_id=found.node_id,
        epoch=epoch,
        phase=RunPhase.ORDERED,
        grant=found.grant,
        ordered_s=draft.now_s,
        restored_from=None if job.durable is None else job.durable.checkpoint_id,
        charge=accounts.charge_for(draft, job, found.node_id, found.grant),
    )
    migration = moving.migration_of(draft, job)
    former = None if migration is None else draft.state.runs[migration.source_run]
    if migration is not None:
        _restarting(draft, migration, run)
        _forget_the_former(draft, migration)
    draft.put(run)
    accounts.began(draft, run)
    draft.put(replace(job, phase=JOB.check(job.id, job.phase, JobPhase.STARTING), epoch=epoch))
    draft.because(job.id, Why.PLACED, node=run.node_id, epoch=epoch, because=found.because)
    draft.order(
        run.node_id,
        StartRun(
            run_id=run.id,
            job_id=job.id,
            epoch=epoch,
            command=job.spec.guest_command,
            environment=job.spec.environment,
            bundle=job.spec.bundle,
            lockfile=job.spec.lockfile,
            grant=run.grant,
            name=job.spec.name,
            user=job.spec.owner,
            lab=job.spec.lab,
            restore=run.restored_from,
            restore_step=0 if job.durable is None else job.durable.step,
            spoiled=job.spoiled,
            image=job.image,
            tier=job.tier,
            vault_key=job.vault_key,
            seat=job.spec.seat,
            keep=kept_from(job),
            places=job.spec.places,
            run_key=key_of_run(job.peer_key, epoch),
            source=staging.pass_to(draft, former, run.node_id),
            whole=dumps.may_be_whole(draft, job, run),
        ),
    )
    draft.set_timer(f"start:{run.id}", draft.now_s + draft.timing.start_timeout_s)


def _restarting(draft: Draft, migration: Migration, run: Run) -> None:
    current = draft.state.migrations[migration.id]
    phase = MIGRATION.check(current.id, current.phase, MigrationPhase.RESTARTING)
    draft.put(replace(current, phase=phase, destination=run.node_id, reserved_gpus=()))


def _forget_the_former(draft: Draft, migration: Migration) -> None:
    """A last save that was given up may still be on its way: it takes room on the wire for nothing."""
    former = draft.state.runs[migration.source_run]
    if draft.state.unsettled.get(former.id):
        draft.order(former.node_id, StopRun(run_id=former.id, job_id=former.job_id, epoch=former.epoch))


def _keep_looking(draft: Draft) -> None:
    """Refusals wear off and jobs away from home get nearer their end: look again after a while."""
    if not draft.timer_set("replan") and (draft.state.waiting or homeward.anybody_away(draft)):
        draft.set_timer("replan", draft.now_s + draft.timing.replan_s)
