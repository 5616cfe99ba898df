"""What both sides are told of room that is made: who gives it, when it comes, and why nobody gives any."""

from __future__ import annotations

from collections import Counter

from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.migration import Migration, MigrationPhase, Way
from gpunion.domain.jobs.run import Run
from gpunion.domain.reasons.reason import Reason, Why, because
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import accounts
from gpunion.engine.coordinator.planning import preemption as preempting
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.runs.ways_to_leave import ways_to_leave

_HOW = {
    Way.PARK: "is being parked there in memory first",
    Way.DUMP: "is being dumped there whole first",
    Way.SAVE: "is being saved there first",
    Way.UNSAVED: "is being ended there",
}
_STANDING = (MigrationPhase.PARKED, MigrationPhase.RESTARTING)


def waits_because(draft: Draft, job: Job) -> list[Reason]:
    """Right now; what was decided stands in its story."""
    migration = moving.migration_of(draft, job)
    if migration is not None and migration.phase in _STANDING:
        return [_stands_still(draft, job, migration)]
    if migration is not None and migration.room_for is not None:
        return [_gave(draft, job, migration)]
    coming = [one for one in preempting.making_room(draft) if one.room_for == job.id]
    if coming:
        return [_comes(draft, job, coming)]
    if not draft.policies.preemption.at_once(job.spec.priority) or not preempting.seeks(draft, job):
        return []
    if accounts.held_back(draft, gangs.as_one(job)) is not None:
        return []  # which is told, and reason enough
    told = _who_stays(draft, job)
    return [because(job.id, Why.NOBODY_MAKES_ROOM, because=told)] if told else []


def _gave(draft: Draft, job: Job, migration: Migration) -> Reason:
    other = None if migration.room_for is None else draft.state.jobs.get(migration.room_for)
    if other is None or other.phase.over:
        return because(job.id, Why.ROOM_GIVEN_BEFORE, node=migration.source_node, job=str(migration.room_for))
    node, urgent = migration.source_node, other.spec.priority.name.lower()
    run = moving.current_run(draft, other)
    left_s = None if run is None else preempting.remaining_s(draft, other, run)
    if left_s is None:
        return because(job.id, Why.ROOM_GIVEN, node=node, job=other.id, urgent=urgent)
    return because(job.id, Why.ROOM_GIVEN_UNTIL, node=node, job=other.id, urgent=urgent, left_s=left_s)


def _stands_still(draft: Draft, job: Job, migration: Migration) -> Reason:
    run = draft.state.runs[migration.source_run]
    if migration.phase is MigrationPhase.RESTARTING:
        return because(job.id, Why.GETS_BACK, node=run.node_id)
    whom = migration.room_for
    other = None if whom is None else draft.state.jobs.get(whom)
    for_s = draft.now_s - (migration.started_s if run.parked_s is None else run.parked_s)
    turn_s = max(0.0, draft.timing.parked_at_most_s - for_s)
    if other is None or other.phase.over:
        why = Why.STANDS_STILL_BEFORE
        return because(job.id, why, node=run.node_id, for_s=for_s, turn_s=turn_s, job=str(whom))
    other_run, urgent = moving.current_run(draft, other), other.spec.priority.name.lower()
    left_s = None if other_run is None else preempting.remaining_s(draft, other, other_run)
    if left_s is None:
        return because(
            job.id,
            Why.STANDS_STILL,
            node=run.node_id,
            for_s=for_s,
            turn_s=turn_s,
            job=other.id,
            urgent=urgent,
        )
    return because(
        job.id,
        Why.STANDS_STILL_UNTIL,
        node=run.node_id,
        for_s=for_s,
        turn_s=turn_s,
        job=other.id,
        urgent=urgent,
        left_s=left_s,
    )


def _comes(draft: Draft, job: Job, coming: list[Migration]) -> Reason:
    victims = [draft.state.jobs[one.job_id] for one in coming]
    left_s = [_expected_s(draft, one) - (draft.now_s - one.started_s) for one in coming]
    return because(
        job.id,
        Why.ROOM_COMES,
        node=", ".join(sorted({one.source_node for one in coming})),
        jobs=", ".join(sorted(str(one.id) for one in victims)),
        classes=preempting.classes_in_words(victims),
        how=" and ".join(sorted({_HOW[one.way or Way.SAVE] for one in coming})),
        free_in_s=max(0.0, *left_s),
    )


def _expected_s(draft: Draft, migration: Migration) -> float:
    if migration.left_s is not None:
        return migration.left_s - migration.started_s
    run = draft.state.runs[migration.source_run]
    ways = ways_to_leave(draft, draft.state.nodes[run.node_id], run)
    return next((one.free_s for one in ways if one.way is migration.way), draft.job_of(run).cost.save_s)


def _who_stays(draft: Draft, job: Job) -> str:
    """Why, of the runs there are, none has to go."""
    stays: Counter[str] = Counter()
    for living in draft.state.living.values():
        for run_id in living:
            stays[_stays_because(draft, job, draft.state.runs[run_id])] += 1
    return ", ".join(f"{number} {why}" for why, number in sorted(stays.items()))


def _stays_because(draft: Draft, job: Job, run: Run) -> str:
    node = draft.state.nodes[run.node_id]
    if draft.job_of(run).spec.priority >= job.spec.priority:
        return "of its own class or a higher one"
    if not preempting.may_go(draft, node, run):
        return "that starts or leaves just now"
    able = preempting.candidate(draft, node, run)
    if able.leaving is None:
        return "that cannot leave without a loss, and was not handed in with --preemptible"
    if able.left_alone:
        return "that moved, or was asked to go, lately, or is nearly done"
    return "without which there would be no room for it either"
