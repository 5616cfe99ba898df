"""Homecoming: a job that was driven from a better place goes back when that pays."""

from __future__ import annotations

from collections.abc import Iterator

from gpunion.domain.ids import checkpoint_id
from gpunion.domain.jobs.checkpoint import CheckpointPhase, CheckpointTrouble
from gpunion.domain.jobs.gang import leader_of
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.migration import Cause
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.nodes.node import Node
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.capacity import view
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import staging
from gpunion.engine.coordinator.planning.departures import active_flush_bps
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.policy.bandwidth import reclaim_cap_bps
from gpunion.policy.gangs.placing import AllPlaced, place_gang
from gpunion.policy.homecoming import WayHome
from gpunion.policy.placement.filters import has_room, refusal
from gpunion.policy.placement.pick import choose_gpus

# One that is under way, one that another took the place of, and one that came while it stood parked say
# nothing of whether its program answers.
SAVES_LOOKED_AT = 4
_SAYS_NOTHING = (CheckpointTrouble.SUPERSEDED, CheckpointTrouble.PARKED)


def send(draft: Draft) -> None:
    away = list(_away_in_any_order(draft))
    free = (run for run in away if _free_home(draft, draft.job_of(run)) is not None)
    alone = [run for run in free if _can_be_saved(draft, run)]
    for run in sorted(alone, key=lambda run: run.id):
        job = draft.job_of(run)
        home = _free_home(draft, job)  # who went before may have taken it
        gain_s = None if home is None else _gain_s(draft, job, run, home)
        if (
            home is not None
            and gain_s is not None
            and refusal(job, view(draft, home.id), draft.now_s) is None
        ):
            _go(draft, job, run, home, gain_s)
    for leader in sorted({leader_of(one.id, one.spec.seat) for one in _jobs(draft, away) if one.spec.seat}):
        _send_gang(draft, draft.state.jobs[leader])


def anybody_away(draft: Draft) -> bool:
    return next(_away_in_any_order(draft), None) is not None


def _free_home(draft: Draft, job: Job) -> Node | None:
    """Of a job that moves by itself. The quickest questions come first: most homes are taken."""
    home = None if job.home is None or job.spec.seat is not None else draft.state.nodes.get(job.home)
    return home if home is not None and has_room(job.spec.request, view(draft, home.id)) else None


def _can_be_saved(draft: Draft, run: Run) -> bool:
    """Not if the last save that anything came of failed: nobody drives it out, and a program that does not
    answer would be asked for ever, with a place at its home kept for it. One that works shows that it can."""
    oldest = max(0, run.checkpoints - SAVES_LOOKED_AT)
    for number in range(run.checkpoints, oldest, -1):
        save = draft.state.checkpoints.get(checkpoint_id(run.id, number))
        if save is None or save.trouble in _SAYS_NOTHING:
            continue
        if save.phase in (CheckpointPhase.DURABLE, CheckpointPhase.FAILED):
            return save.phase is CheckpointPhase.DURABLE
    return True


def _away_in_any_order(draft: Draft) -> Iterator[Run]:
    runs, jobs, running = draft.state.runs, draft.state.jobs, RunPhase.RUNNING
    for node_id, living in draft.state.living.items():
        for run_id in living:
            run = runs[run_id]
            job = jobs[run.job_id]
            if job.home == node_id or run.phase is not running:
                continue  # nearly everybody
            if not run.parking and run.over_s is None and job.migration is None:
                yield run


def _jobs(draft: Draft, runs: list[Run]) -> Iterator[Job]:
    return (draft.job_of(run) for run in runs)


def _send_gang(draft: Draft, leader: Job) -> None:
    """All who are away go, or nobody does. The others are saved with them and stay where they are."""
    runs = gangs.running_together(draft, leader)
    away = [run for run in runs if draft.job_of(run).home != run.node_id]
    if not all(_can_be_saved(draft, run) for run in runs):
        return
    if not away or not _homes_take_all(draft, [draft.job_of(run) for run in away]):
        return
    ways = [_way(draft, draft.job_of(run), run, _home_of(draft, run)) for run in runs]
    known = [way for way in ways if way is not None]
    if len(known) < len(ways):
        return
    together = WayHome(  # at the pace of the slowest, until the last is done
        remaining_s=max(way.remaining_s for way in known),
        speed_here=min(way.speed_here for way in known),
        speed_home=min(way.speed_home for way in known),
        downtime_s=max(way.downtime_s for way in known) + gangs.agreeing_s(draft, leader),
    )
    gain_s = draft.policies.homecoming.gain_s(together)
    if gain_s is not None and all(_spare_bps(draft, run) > 0 for run in away):
        for run in away:
            _go(draft, draft.job_of(run), run, _home_of(draft, run), gain_s)


def _homes_take_all(draft: Draft, jobs: list[Job]) -> bool:
    homes = {job.id: job.home for job in jobs if job.home is not None and job.home in draft.state.nodes}
    if len(homes) < len(jobs):
        return False
    there = [view(draft, node_id) for node_id in sorted(set(homes.values()))]
    found = place_gang(jobs, there, draft.now_s, draft.policies.scoring, homes)
    return isinstance(found, AllPlaced) and all(
        found.places[job_id].node_id == home for job_id, home in homes.items()
    )


def _home_of(draft: Draft, run: Run) -> Node:
    return draft.state.nodes[draft.job_of(run).home or run.node_id]


def _gain_s(draft: Draft, job: Job, run: Run, home: Node) -> float | None:
    way = _way(draft, job, run, home)
    return None if way is None else draft.policies.homecoming.gain_s(way)


def _way(draft: Draft, job: Job, run: Run, home: Node) -> WayHome | None:
    remaining_s = _remaining_s(draft, job, run)
    if remaining_s is None:
        return None
    return WayHome(
        remaining_s=remaining_s,
        speed_here=_speed(draft.state.nodes[run.node_id], run.grant.gpu_indices),
        speed_home=home.facts.capacity.speed,
        downtime_s=_downtime_s(draft, job, run),
    )


def _go(draft: Draft, job: Job, run: Run, home: Node, gain_s: float) -> None:
    spare_bps = _spare_bps(draft, run)
    if spare_bps <= 0:
        return  # the uplink is busy saving others from a deadline; next time
    gpus = choose_gpus(job, view(draft, home.id))
    draft.because(job.id, Why.GOING_HOME, node=home.id, gain_s=gain_s)
    moving.flush(
        draft,
        run,
        Cause.HOMECOMING,
        rate_bps=spare_bps / len(gangs.beside(draft, run)),
        deadline_s=None,
        destination=home.id,
        reserved_gpus=tuple(gpu.index for gpu in gpus),
    )
    staging.bring_along(draft, run, home.id)


def _spare_bps(draft: Draft, run: Run) -> float:
    source = draft.state.nodes[run.node_id]
    return reclaim_cap_bps(source.facts.lent_uplink_bps) - active_flush_bps(draft, source.id)


def _remaining_s(draft: Draft, job: Job, run: Run) -> float | None:
    """Work left at reference speed: from the guest's own guess, or from the pace seen here."""
    step, progress = draft.state.progress.get(run.id, (run.resumed_step, 0.0))
    if job.spec.expected_s is not None:
        done = max(progress, job.durable.progress if job.durable else 0.0)
        return job.spec.expected_s * (1 - done)
    if run.started_s is None or progress <= 0 or step <= run.resumed_step:
        return None
    pace_per_s = (step - run.resumed_step) / max(draft.now_s - run.started_s, 1e-6)
    steps_left = step / progress - step
    speed_here = _speed(draft.state.nodes[run.node_id], run.grant.gpu_indices)
    return steps_left / pace_per_s * speed_here


def _downtime_s(draft: Draft, job: Job, run: Run) -> float:
    uplink_bps = draft.state.nodes[run.node_id].facts.lent_uplink_bps
    ship_s = 8.0 * job.cost.ship_bytes / max(reclaim_cap_bps(uplink_bps), 1.0)
    return job.cost.save_s + ship_s + job.cost.restart_s


def _speed(node: Node, gpu_indices: tuple[int, ...]) -> float:
    """A job runs at the pace of its slowest GPU."""
    return min((gpu.speed for gpu in node.facts.capacity.gpus if gpu.index in gpu_indices), default=1.0)
