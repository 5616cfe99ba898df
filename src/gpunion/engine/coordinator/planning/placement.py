"""One pass over everybody who waits: each gets a place, or waits on.

Nothing is remembered from one pass to the next. Whoever waits is looked at in turn, and jobs that ask for the
same are answered once.
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import NodeId, run_id
from gpunion.domain.jobs.job import Job, JobPhase, Priority
from gpunion.domain.jobs.migration import Migration, MigrationPhase
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.jobs.window import Promise, Subjob
from gpunion.domain.passes import key_of_run
from gpunion.domain.protocol.orders import StartRun, StopRun
from gpunion.domain.protocol.timers import StartOverdue
from gpunion.domain.reasons.reason import Reason, Verdict, Why
from gpunion.engine.coordinator.capacity import view, views, with_free_gpus
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import accounts, staging
from gpunion.engine.coordinator.planning import gang_placement as gang_places
from gpunion.engine.coordinator.planning import parked_places as parked
from gpunion.engine.coordinator.planning.refusals import blockers
from gpunion.engine.coordinator.planning.reservations import Kept
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.runs import whole_guests as dumps
from gpunion.engine.coordinator.runs.checkpoint_fallback import kept_from
from gpunion.engine.coordinator.runs.ways_to_leave import not_parkable_because
from gpunion.engine.coordinator.windows import ends, promises
from gpunion.lifecycle.job import JOB
from gpunion.lifecycle.migration import MIGRATION
from gpunion.policy.ordering import Queue
from gpunion.policy.placement.filters import FOR_GOOD, has_room, refusal
from gpunion.policy.placement.pick import NotPlaced, Placed, place


def place_waiting(draft: Draft) -> tuple[list[Job], Kept]:
    """One pass over everybody who waits, in the order of their turns. What fitted nowhere once in a pass fits
    nobody else who asks for the same: room only shrinks, but for places that were kept and are given back.

    What comes back: those who may run in windows or need several GPUs and got none, and what is kept."""
    ordering = draft.policies.ordering
    parked.give_places_on(draft)
    waiting = _place_at_home(draft, accounts.by_turn(draft))
    queue, kept = Queue(waiting, ordering, accounts.shares(draft)), Kept()
    hopeless: set[object] = set()
    left_over: list[Job] = []
    for job in queue:
        parked.go_back(draft, least=job.spec.priority)
        if job.spec.seat is not None:
            if _start_gang(draft, job, kept):
                queue.served()
            continue
        migration = moving.migration_of(draft, job)
        if migration is not None and migration.phase is not MigrationPhase.SEEKING:
            continue
        if job.awaits is not None:
            continue  # what it goes on from is on its way
        if job.promised is not None:
            if _claim(draft, job, job.promised):
                queue.served()
            continue
        if job.spec.atomizable or job.spec.request.gpus > 1:
            left_over.append(job)
        asks = asked(job)
        if migration is not None and migration.reserved_gpus:
            # Free for it now, and for others while its quota holds it back.
            draft.put(replace(migration, reserved_gpus=()))
        elif asks in hopeless:
            _say_waiting(draft, job)
            continue
        over = accounts.held_back(draft, job)
        if over is not None:
            _say_held_back(draft, job, over)
            continue
        found = _look(draft, job, kept, None if migration is None else migration.destination)
        if isinstance(found, Placed):
            start(draft, job, found)
            queue.served()
        elif dumps.waited_long(draft, job):
            draft.put(dumps.give_up_if_in_vain(draft, job, verdicts(draft, job)))
        else:
            if not draft.policies.reserves_first:  # where one is kept, others of its kind may yet pass it
                hopeless.add(asks)
            kept.keep_for(draft, job)
            _say_waiting(draft, job)
    parked.go_back(draft, least=Priority.LOW)
    return [job for job in left_over if job.id in draft.state.waiting], kept


def asked(job: Job) -> object:
    """Jobs of which this is equal get the same answer from every node."""
    return (
        *(job.spec.request, job.spec.lab, job.spec.owner, job.avoid, job.image, job.image_barred),
        job.packages if job.packages_barred else None,
        *(job.tier, job.dump and (job.dump.kind, job.dump.gpu), job.spec.places, job.spec.windows.not_on),
    )


def _look(draft: Draft, job: Job, kept: Kept, prefer: NodeId | None) -> Placed | NotPlaced:
    request = job.spec.request
    found = with_free_gpus(draft) if request.gpus else views(draft)
    able = [one for one in found if has_room(request, one) and kept.free_for(job, one)]
    return place(job, able, draft.now_s, draft.policies.scoring, prefer)


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


def _place_at_home(draft: Draft, ordered: list[Job]) -> list[Job]:
    """A lab's own jobs on its own machines before anybody else's; returns those who still wait."""
    homes = _free_homes(draft, {job.spec.lab for job in ordered}) if draft.policies.ordering.fair else {}
    tried: set[object] = set()
    for job in ordered if homes else ():
        home, asks = homes.get(job.spec.lab), asked(job)
        if home is None or asks in tried or not _looks_for_any_place(draft, job):
            continue
        if accounts.held_back(draft, job) is not None:
            continue
        able = [one for node_id in home if has_room(job.spec.request, one := view(draft, node_id))]
        found = place(job, able, draft.now_s, draft.policies.scoring)
        if isinstance(found, NotPlaced):
            tried.add(asks)
        else:
            start(draft, job, found)
    return [job for job in ordered if job.id in draft.state.waiting] if homes else ordered


def _looks_for_any_place(draft: Draft, job: Job) -> bool:
    """Not whoever is still being saved, or was promised a place elsewhere."""
    migration = moving.migration_of(draft, job)
    if job.awaits is not None or job.promised is not None:
        return False
    if job.spec.seat is not None:
        return False  # all members are placed at once
    return migration is None or (migration.phase is MigrationPhase.SEEKING and not migration.reserved_gpus)


def _free_homes(draft: Draft, labs: set[str]) -> dict[str, list[NodeId]]:
    homes: dict[str, list[NodeId]] = {}
    for node in draft.state.nodes.values():
        lab = node.facts.lab
        if lab and lab in labs and view(draft, node.id).free_gpus:
            homes.setdefault(lab, []).append(node.id)
    return homes


def _start_gang(draft: Draft, job: Job, kept: Kept) -> bool:
    """When the turn comes to its first member: all of them, or none."""
    if job.id not in draft.state.waiting:
        return False  # another member's turn came first
    found = gang_places.find(draft, job, kept)
    for member, place_of in found:
        start(draft, member, place_of)
    return bool(found)


def _has_just_begun(draft: Draft, job: Job) -> bool:
    """To wait for a place, in this very decision: many may begin at one moment, and each is told once."""
    return job.id in draft.seeking or (job.waiting_since_s == draft.now_s and draft.has_put(job))


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


def _claim(draft: Draft, job: Job, promised: Promise) -> bool:
    """Its place, as soon as those who had it have gone."""
    if not promises.is_free(draft, promised) or accounts.held_back(draft, job) is not None:
        return False
    draft.put(replace(job, promised=None))
    job = draft.state.jobs[job.id]
    found = place(job, [view(draft, promised.node_id)], draft.now_s, draft.policies.scoring, promised.node_id)
    if isinstance(found, Placed):
        start(draft, job, found)
        return True
    promises.dropped(draft, job, promised)
    return False


def start(draft: Draft, job: Job, found: Placed, subjob: Subjob | None = None) -> None:
    epoch = job.epoch + 1
    if subjob is None:
        subjob = ends.of_newcomer(draft, job, found.node_id)
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
        subjob=subjob,
    )
    migration = moving.migration_of(draft, job)
    former = None if migration is None else draft.state.runs[migration.source_run]
    if migration is not None:
        _restarting(draft, migration, run)
        _forget_the_former(draft, migration)
    draft.put(run)
    accounts.began(draft, run)
    draft.put(replace(job, phase=JOB.check(job.id, job.phase, JobPhase.STARTING), epoch=epoch))
    _say_placed(draft, job, run, found.because)
    _tell_of_a_slice(draft, run)
    draft.order(
        run.node_id,
        StartRun(
            run_id=run.id,
            job_id=job.id,
            epoch=epoch,
            command=job.spec.command,
            wrapper=job.spec.wrapper,
            entrypoint=job.spec.entrypoint,
            environment=job.spec.environment,
            bundle=job.spec.bundle,
            lockfile=job.spec.lockfile,
            packages=job.packages,
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
            session=job.session,
            subjob=subjob,
        ),
    )
    draft.set_timer(StartOverdue(run_id=run.id), draft.now_s + draft.timing.start_timeout_s)


def _tell_of_a_slice(draft: Draft, run: Run) -> None:
    """What others have on whole cards and it has not here."""
    facts = draft.state.nodes[run.node_id].facts
    for gpu in facts.capacity.gpus:
        if gpu.card and gpu.index in run.grant.gpu_indices:
            draft.because(run.job_id, Why.ON_A_SLICE, node=run.node_id, profile=gpu.profile or gpu.model)


def _say_placed(draft: Draft, job: Job, run: Run, chosen: str) -> None:
    """Where it could not be parked though its owner allows that, its user knows why beforehand."""
    draft.because(job.id, Why.PLACED, node=run.node_id, epoch=run.epoch, because=chosen)
    node = draft.state.nodes[run.node_id]
    why = not_parkable_because(draft, node, run)
    if why and node.facts.terms.park and job.spec.priority < Priority.HIGH and run.grant.gpu_indices:
        draft.because(job.id, Why.CANNOT_BE_PARKED, node=node.id, because=why)


def _restarting(draft: Draft, migration: Migration, run: Run) -> None:
    current = draft.state.migrations[migration.id]
    phase = MIGRATION.check(current.id, current.phase, MigrationPhase.RESTARTING)
    draft.put(replace(current, phase=phase, destination=run.node_id, reserved_gpus=()))


def living(draft: Draft, node_id: NodeId) -> list[Run]:
    return [draft.state.runs[run_id] for run_id in sorted(draft.state.living.get(node_id, ()))]


def _forget_the_former(draft: Draft, migration: Migration) -> None:
    """A last save that was given up may still be on its way: it takes room on the wire for nothing."""
    former = draft.state.runs[migration.source_run]
    if draft.state.unsettled.get(former.id):
        draft.order(former.node_id, StopRun(run_id=former.id, job_id=former.job_id, epoch=former.epoch))
