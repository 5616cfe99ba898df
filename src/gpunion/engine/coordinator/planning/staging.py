"""Copies of jobs' states ahead of their jobs: asked for, heard of, outdated, and done with.

After every save a job's shortlist is made anew and copies that pay are asked for. A job that is leaving has
its last durable state brought to where it is going while it saves: what it saves then is all that is left.
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.ids import run_id as newest_run_id
from gpunion.domain.jobs.job import Job, StateCopy
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.passes import PeerPass, issue, key_of_run
from gpunion.domain.protocol.orders import FetchImage, StageState, UnstageState
from gpunion.domain.protocol.reports import RunStarted, StateStaged
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.capacity import slowest_bps, views
from gpunion.engine.coordinator.draft import Draft
from gpunion.policy.staging import (
    COPIES_MOST,
    LEAST_BYTES,
    SHORTLIST,
    WINDOW_S,
    building_budget_bytes,
    copyable,
    rewritten_share,
    staging_rate_bps,
)

# Machines that others may ask: within a notice only for the names of what is being saved.
_GIVES = (NodePhase.SHARING, NodePhase.PAUSED, NodePhase.RECLAIMING)
# A copy that was asked for this lately is on its way, and what it will be is what is wanted now.
ON_ITS_WAY_S = 600.0


def consider(draft: Draft, run_id: RunId) -> None:
    """A save of it has become durable."""
    policy, run = draft.policies.staging, draft.state.runs.get(run_id)
    if policy is None or run is None or run.phase is not RunPhase.RUNNING:
        return
    job = draft.job_of(run)
    if job.migration is not None:
        return
    source = draft.state.nodes[run.node_id]
    if not policy.wants(job, draft.now_s):
        return
    if not policy.may_pay(job, source, slowest_bps(draft), draft.now_s):
        return
    listed = policy.shortlist(
        job, views(draft), _counted_on(draft, job), leaving=source.id, now_s=draft.now_s
    )
    places = [draft.state.nodes[node_id] for node_id in listed]
    for offer in policy.offers(job, source, places, draft.now_s):
        place = draft.state.nodes[offer.node_id]
        if policy.pays(offer, _used_share(draft, place, offer.move_bytes)):
            order = _order(draft, run, staging_rate_bps(place), source=pass_to(draft, run, place.id))
            _ask(draft, place.id, order, offer.move_bytes, "in case its machine is wanted back")


def bring_along(draft: Draft, run: Run, destination: NodeId | None) -> None:
    """It is leaving, and a place is kept there: what will not change any more can go ahead of it."""
    job = draft.job_of(run)
    if draft.policies.staging is None or destination is None or destination == run.node_id:
        return
    copy = job.copy_on(destination)
    if not copyable(job) or (copy is not None and copy.asked_s > draft.now_s - ON_ITS_WAY_S):
        return
    lacking = job.lacking_bytes(destination)
    source = pass_to(draft, run, destination)
    base = lacking * (1.0 - rewritten_share(job)) >= LEAST_BYTES
    if source is not None or base:
        order = _order(draft, run, 0.0, source=source, follow=source is not None)
        move_bytes = lacking if base else job.cost.ship_bytes
        _ask(draft, destination, replace(order, base=base), move_bytes, "while it is being saved")


def staged(draft: Draft, node_id: NodeId, report: StateStaged) -> None:
    job = draft.state.jobs.get(report.job_id)
    copy = None if job is None else job.copy_on(node_id)
    if job is None or copy is None or copy.checkpoint_id != report.checkpoint_id:
        return  # it was asked for something newer since, or is not wanted there any more
    others = tuple(c for c in job.copies if c is not copy)
    draft.put(replace(job, copies=(*others, replace(copy, there=True))))
    fetched, direct = report.fetched_bytes, report.direct_bytes
    draft.because(job.id, Why.STATE_READY, node=node_id, fetched=fetched, direct=direct)
    if report.trouble:
        draft.because(job.id, Why.NO_DIRECT_WAY, node=node_id, trouble=report.trouble)


def tell_how_it_came(draft: Draft, run: Run, report: RunStarted) -> None:
    if report.found_bytes:
        draft.because(run.job_id, Why.STATE_WAS_THERE, node=run.node_id, found=report.found_bytes)
    if report.direct_bytes:
        draft.because(run.job_id, Why.STATE_CAME_DIRECTLY, node=run.node_id, direct=report.direct_bytes)
    if report.trouble:
        draft.because(run.job_id, Why.NO_DIRECT_WAY, node=run.node_id, trouble=report.trouble)


def pass_to(draft: Draft, run: Run | None, bearer: NodeId) -> PeerPass | None:
    """To the blocks that a run has, or had, on its node, where the owner lets others fetch from it."""
    if run is None or run.node_id == bearer:
        return None
    job, node = draft.job_of(run), draft.state.nodes.get(run.node_id)
    if node is None or not node.facts.data_address or node.phase not in _GIVES:
        return None
    if not job.peer_key or job.vault_key:
        return None
    return issue(
        key_of_run(job.peer_key, run.epoch),
        job_id=job.id,
        address=node.facts.data_address,
        node_id=node.id,
        bearer=bearer,
        now_s=draft.now_s,
    )


def kept_where_it_runs(draft: Draft, job: Job, run_id: RunId) -> tuple[StateCopy, ...]:
    """A machine that others may fetch from keeps what is saved on it. Never asked for, so it costs nobody."""
    run = draft.state.runs.get(run_id)
    node = None if run is None else draft.state.nodes[run.node_id]
    if node is None or not node.facts.data_address or job.vault_key or job.durable is None:
        return job.copies
    others = [copy for copy in job.copies if copy.node_id != node.id]
    here = StateCopy(
        node_id=node.id,
        checkpoint_id=job.durable.checkpoint_id,
        asked_s=0.0,
        asked_bytes=0,
        there=True,
    )
    return (here, *others)


def behind(copies: tuple[StateCopy, ...], shipped_bytes: int) -> tuple[StateCopy, ...]:
    """Another save: so much of every copy is older than the newest state."""
    return tuple(replace(copy, behind_bytes=copy.behind_bytes + shipped_bytes) for copy in copies)


def follow_ends(draft: Draft) -> None:
    """Of a job that is over nothing needs to lie ready anywhere."""
    for job in draft.changed_jobs():
        if not job.phase.over:
            continue
        copies = [copy.node_id for copy in job.copies]
        kept = _has_run_on(draft, job) if draft.has_ended(job) and not job.vault_key else []
        for node_id in dict.fromkeys([*copies, *kept]):
            _drop(draft, job, node_id)
        if job.copies:
            draft.put(replace(job, copies=()))


def _has_run_on(draft: Draft, job: Job) -> list[NodeId]:
    """Machines that keep what is saved on them. Not all of that became a copy that anybody knows of: a save
    that was never durable, or one of a gang whose other members were at another step."""
    runs = (draft.state.runs.get(newest_run_id(job.id, epoch)) for epoch in range(1, job.epoch + 1))
    nodes = (draft.state.nodes.get(run.node_id) for run in runs if run is not None)
    return [node.id for node in nodes if node is not None and node.facts.data_address]


def _order(
    draft: Draft, run: Run, rate_bps: float, *, source: PeerPass | None, follow: bool = False
) -> StageState:
    job = draft.job_of(run)
    assert job.durable is not None
    return StageState(
        run_id=run.id,
        job_id=run.job_id,
        epoch=run.epoch,
        checkpoint_id=job.durable.checkpoint_id,
        rate_bps=rate_bps,
        places=job.spec.places,
        source=source,
        follow=follow,
    )


def _ask(draft: Draft, node_id: NodeId, order: StageState, move_bytes: int, because: str) -> None:
    job = draft.state.jobs[order.job_id]
    draft.order(node_id, order)
    copies = [copy for copy in job.copies if copy.node_id != node_id]
    while len(copies) >= COPIES_MOST:
        _drop(draft, job, copies.pop(0).node_id)
    new = StateCopy(
        node_id=node_id,
        checkpoint_id=order.checkpoint_id,
        asked_s=draft.now_s,
        asked_bytes=move_bytes,
    )
    draft.put(replace(job, copies=(*copies, new)))
    draft.because(job.id, Why.STAGED, node=node_id, bytes=move_bytes, because=because)


def _drop(draft: Draft, job: Job, node_id: NodeId) -> None:
    """Not where a run of it is: that one may be reading it."""
    node = draft.state.nodes.get(node_id)
    newest = newest_run_id(job.id, job.epoch)
    if node is not None and newest not in draft.state.living.get(node_id, ()):
        draft.order(node_id, UnstageState(run_id=newest, job_id=job.id, epoch=job.epoch))


def _counted_on(draft: Draft, job: Job) -> dict[NodeId, int]:
    """GPUs of each node that other jobs have on their lists."""
    counted: dict[NodeId, int] = {}
    for node_id, job_ids in draft.state.counted_on.items():
        for job_id in job_ids:
            other = draft.state.jobs[job_id]
            if other.id != job.id and _may_go_there(draft, other, node_id):
                counted[node_id] = counted.get(node_id, 0) + other.spec.request.gpus
    return counted


def _may_go_there(draft: Draft, job: Job, node_id: NodeId) -> bool:
    """Older copies are remains, and where it runs it need not go."""
    listed = any(copy.node_id == node_id for copy in job.copies[-SHORTLIST:])
    return listed and newest_run_id(job.id, job.epoch) not in draft.state.living.get(node_id, ())


def _used_share(draft: Draft, place: Node, more_bytes: int) -> float:
    """Of what copies may move into a building within the hour, what they were asked to, and this one."""
    used_bytes, building = more_bytes, _building(place)
    for node_id, job_ids in draft.state.counted_on.items():
        if _building(draft.state.nodes[node_id]) == building:
            for job_id in job_ids:
                copy = draft.state.jobs[job_id].copy_on(node_id)
                if copy is not None and copy.asked_s > draft.now_s - WINDOW_S:
                    used_bytes += copy.asked_bytes
    return used_bytes / building_budget_bytes()


def _building(node: Node) -> str:
    return node.facts.building or node.facts.lab


def hint(draft: Draft, run: Run, node_id: NodeId | None) -> None:
    job = draft.job_of(run)
    if node_id is not None and job.image is not None and not job.image_barred:
        order = FetchImage(run_id=run.id, job_id=job.id, epoch=run.epoch, parcel=job.image)
        draft.order(node_id, order)


def hint_where_it_would_go(draft: Draft, run: Run) -> None:
    """One node, the one it would be sent to if its owner came back now. Others may be as good: disks are
    not ours to fill."""
    job = draft.job_of(run)
    if job.image is None:
        return
    chosen = draft.policies.destination.choose(job, views(draft), leaving=run.node_id, now_s=draft.now_s)
    hint(draft, run, chosen)
