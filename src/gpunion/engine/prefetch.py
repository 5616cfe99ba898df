"""Telling a node of an image it will probably need: a hint costs an order, a missing image costs minutes."""

from __future__ import annotations

from gpunion.domain.ids import NodeId
from gpunion.domain.orders import FetchImage
from gpunion.domain.run import Run
from gpunion.engine.capacity import views
from gpunion.engine.draft import Draft


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
