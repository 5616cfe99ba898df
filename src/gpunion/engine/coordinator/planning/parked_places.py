"""Runs that stand still in memory for a job of a higher class: who has their places, and when they go on.

One goes on where it stands as soon as its GPUs are free and nobody of a higher class takes them; or it is
dumped as it stands and goes elsewhere, once there is a place. Who has waited for too long goes before
everybody: with a dump into the queue, or back onto its GPUs, and whoever is on them makes room by the rule.
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import CheckpointId, NodeId
from gpunion.domain.jobs.job import DurablePoint, Job, JobPhase, Priority
from gpunion.domain.jobs.migration import Cause, Migration, MigrationPhase, Way
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.nodes.withheld import GpuPhase
from gpunion.domain.protocol.orders import UnparkRun
from gpunion.domain.protocol.timers import ParkedLongEnough
from gpunion.domain.reasons.reason import Why
from gpunion.domain.system_tier import Tier
from gpunion.engine.coordinator.capacity import view, views
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import accounts, gang_moves, leaving, staging
from gpunion.engine.coordinator.planning import preemption as preempting
from gpunion.engine.coordinator.planning.departures import active_flush_bps
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.runs import whole_guests as dumps
from gpunion.engine.coordinator.windows import ends
from gpunion.lifecycle.migration import MIGRATION
from gpunion.policy.bandwidth import reclaim_cap_bps
from gpunion.policy.placement.filters import refusal
from gpunion.policy.placement.pick import choose_gpus

_THERE = (NodePhase.SHARING, NodePhase.PAUSED)
# Clocks of timers and of this room differ by the last digit.
_INSTANT_S = 1e-3


def anybody(draft: Draft) -> bool:
    return any(
        draft.state.migrations[one].phase is MigrationPhase.PARKED for one in sorted(draft.state.moving)
    )


def give_places_on(draft: Draft) -> None:
    """Before anybody is placed: what all who make room for one have left is free for others; and who has
    stood still for too long goes first."""
    for migration, run in _parked(draft):
        if run.has_gpus and not _others_are_leaving(draft, migration):
            _give_on(draft, migration, run)
    for migration, run in _parked(draft):
        if _has_waited(draft, run) and _can_go_back(draft, run):
            _go_back(draft, migration, run)


def go_back(draft: Draft, *, least: Priority) -> None:
    """Of this class and higher ones, who can: they had a place, and go before who waits in their class."""
    for migration, run in _parked(draft):
        if run.gave_place and draft.job_of(run).spec.priority >= least and _can_go_back(draft, run):
            _go_back(draft, migration, run)


def move_on(draft: Draft) -> None:
    """After everybody had their turn: those for whom there is a place elsewhere, and those whose time is
    over."""
    for migration, run in _parked(draft):
        if not run.gave_place or _somebody_comes(draft, migration):
            continue
        if _has_waited(draft, run):
            _claim(draft, migration, run)
        else:
            _go_elsewhere(draft, migration, run)


def _parked(draft: Draft) -> list[tuple[Migration, Run]]:
    """Those who stand still, the highest class first, then who has stood longest."""
    found = []
    for moving_id in draft.state.moving:
        migration = draft.state.migrations[moving_id]
        if migration.phase is MigrationPhase.PARKED:
            run = draft.state.runs[migration.source_run]
            if run.phase is RunPhase.RUNNING and run.parked_s is not None:
                found.append((migration, run))
    found.sort(key=lambda one: (-draft.job_of(one[1]).spec.priority, one[1].parked_s, one[1].id))
    return found


def _others_are_leaving(draft: Draft, migration: Migration) -> bool:
    """What one has left is kept until the last has gone: it is of no use to that job before, and would be
    taken by another."""
    same = (one for one in preempting.making_room(draft) if one.room_for == migration.room_for)
    return any(one.phase is not MigrationPhase.PARKED for one in same)


def _give_on(draft: Draft, migration: Migration, run: Run) -> None:
    accounts.gave_back(draft, run)
    draft.put(replace(run, gpus_back=True))


def _has_waited(draft: Draft, run: Run) -> bool:
    assert run.parked_s is not None
    return draft.now_s - run.parked_s >= draft.timing.parked_at_most_s - _INSTANT_S


def _can_go_back(draft: Draft, run: Run) -> bool:
    node, here = draft.state.nodes[run.node_id], view(draft, run.node_id)
    if node.phase not in _THERE or node.unheard or node.isolated_because:
        return False
    if run.gpus_back and not set(run.grant.gpu_indices) <= _free_gpus(draft, node):
        return False
    fits = here.free_cpus + run.held_cpus >= run.grant.cpus
    return fits and accounts.held_back(draft, draft.job_of(run)) is None


def _free_gpus(draft: Draft, node: Node) -> set[int]:
    """Also those that are only lent to nobody new."""
    free = {gpu.index for gpu in view(draft, node.id).free_gpus}
    paused = {gpu.index for gpu in node.withheld if gpu.phase is GpuPhase.PAUSED}
    return free | (paused - {index for run in _others_on(draft, node.id) for index in run.held_gpus})


def _others_on(draft: Draft, node_id: NodeId) -> list[Run]:
    return [draft.state.runs[one] for one in sorted(draft.state.living.get(node_id, ()))]


def _go_back(draft: Draft, migration: Migration, run: Run) -> None:
    back = replace(run, gpus_back=False, held_since_s=draft.now_s)
    draft.put(back)
    accounts.began(draft, back)
    phase = MIGRATION.check(migration.id, migration.phase, MigrationPhase.RESTARTING)
    draft.put(replace(migration, phase=phase, destination=run.node_id))
    draft.cancel_timer(ParkedLongEnough(run_id=run.id))
    ends.afresh(draft, run)  # before it goes on: else its keeper would hold it to an end that is long over
    draft.order(run.node_id, UnparkRun(run_id=run.id, job_id=run.job_id, epoch=run.epoch))


def _somebody_comes(draft: Draft, migration: Migration) -> bool:
    """Whom it made room for is not there yet: a dump would only be in its way."""
    other = None if migration.room_for is None else draft.state.jobs.get(migration.room_for)
    if other is None or other.phase.over:
        return False
    return other.phase.waiting or other.phase is JobPhase.STARTING


def _go_elsewhere(draft: Draft, migration: Migration, run: Run) -> None:
    job, node = draft.job_of(run), draft.state.nodes[run.node_id]
    if not _can_be_dumped(draft, job, run) or accounts.held_back(draft, job) is not None:
        return
    dumped = _as_dumped(job, node, run)
    destination = draft.policies.destination.choose(dumped, views(draft), leaving=node.id, now_s=draft.now_s)
    if destination is None or refusal(dumped, view(draft, destination), draft.now_s) is not None:
        return
    gpus = choose_gpus(dumped, view(draft, destination))
    _dump(draft, migration, run, destination, tuple(gpu.index for gpu in gpus))
    staging.hint(draft, run, destination)


def _claim(draft: Draft, migration: Migration, run: Run) -> None:
    job, node = draft.job_of(run), draft.state.nodes[run.node_id]
    if _can_be_dumped(draft, job, run):
        _dump(draft, migration, run, None, ())
        return
    held = {gpu.index for gpu in node.withheld if gpu.phase is not GpuPhase.PAUSED}
    if held & set(run.grant.gpu_indices):
        _give_up(draft, migration, run)
        return
    if any(one.room_for == job.id for one in preempting.making_room(draft)):
        return  # its GPUs are being made free
    mine = set(run.grant.gpu_indices)
    there = [one for one in _others_on(draft, node.id) if mine & set(one.held_gpus)]
    found = [preempting.candidate(draft, node, one) for one in there if preempting.may_go(draft, node, one)]
    if not there or len(found) < len(there) or any(one.left_alone for one in found):
        return
    sends = any(one.leaving is not None and one.leaving.way is not Way.PARK for one in found)
    if sends and _spare_bps(draft, node) <= 0:
        return
    draft.because(job.id, Why.CLAIMS_PLACE, node=node.id, waited_s=draft.now_s - (run.parked_s or 0.0))
    for one in found:
        assert one.leaving is not None
        other = draft.state.runs[one.run_id]
        leaving.leave(draft, other, job, one.leaving.way, rate_bps=_spare_bps(draft, node) / len(found))


def _give_up(draft: Draft, migration: Migration, run: Run) -> None:
    """Its owner has its GPU, and may have it for long: as one that was parked for them, it goes on elsewhere
    from what it saved last."""
    waited_s = draft.now_s - (run.parked_s or 0.0)
    draft.because(run.job_id, Why.PARKED_TOO_LONG, node=run.node_id, patience_s=waited_s)
    moving.abandon(draft, draft.job_of(run))
    moving.begin(draft, draft.job_of(run), run, Cause.OWNER_RECLAIM, phase=MigrationPhase.FLUSHING)
    gang_moves.stop(draft, run)


def _can_be_dumped(draft: Draft, job: Job, run: Run) -> bool:
    if Way.DUMP in run.ways_failed or not dumps.may_be_whole(draft, job, run):
        return False
    node = draft.state.nodes[run.node_id]
    return node.phase in _THERE and _spare_bps(draft, node) > 0


def _as_dumped(job: Job, node: Node, run: Run) -> Job:
    """What it would be to whoever took it."""
    cards = [gpu for gpu in node.facts.capacity.gpus if gpu.index in run.grant.gpu_indices]
    model = next((gpu.model for gpu in cards if not gpu.declared), "")
    point = DurablePoint(
        checkpoint_id=CheckpointId(""),
        step=0,
        progress=0.0,
        at_s=0.0,
        tier=Tier.SYSTEM,
        kind=node.facts.system.kind,
        gpu=model,
    )
    return replace(job, durable=point)


def _dump(
    draft: Draft, migration: Migration, run: Run, destination: NodeId | None, gpus: tuple[int, ...]
) -> None:
    node = draft.state.nodes[run.node_id]
    told = "" if destination is None else f" to {destination}"
    draft.because(run.job_id, Why.PARKED_IS_DUMPED, node=node.id, where=told)
    draft.cancel_timer(ParkedLongEnough(run_id=run.id))
    moving.flush(
        draft,
        run,
        Cause.PREEMPTED,
        rate_bps=_spare_bps(draft, node),
        deadline_s=None,
        destination=destination,
        reserved_gpus=gpus,
        dump=True,
    )


def _spare_bps(draft: Draft, node: Node) -> float:
    return reclaim_cap_bps(node.facts.lent_uplink_bps) - active_flush_bps(draft, node.id)
