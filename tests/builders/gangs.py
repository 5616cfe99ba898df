"""Gangs of two on a campus where every decision is audited, and what is asked about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpunion.domain.jobs.gang import Seat
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.reasons.reason import Why
from tests.builders import Headquarters, a_spec, orders

MEMBERS = ("job", "job-r1")
RUNS = ("job-e1", "job-r1-e1")


def a_gang_spec(size: int = 2, **more: Any) -> Any:
    return replace(a_spec(**more), seat=Seat(size=size))


def a_running_gang(*nodes: str, **more: Any) -> Headquarters:
    """Member 0 on alpha, member 1 on beta; the other nodes are free."""
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.joins("beta")
    headquarters.submits("job", a_gang_spec(**more))
    for run in RUNS:
        headquarters.later(1).started(run)
    for node in nodes:
        headquarters.joins(node)
    return headquarters


def of_kind(decision: Decision, kind: type) -> dict[str, Any]:
    """Orders by run."""
    return {order.run_id: order for _, order in orders(decision) if isinstance(order, kind)}


def told(headquarters: Headquarters, job: str, why: Why) -> list[str]:
    return [r.sentence() for _, r in headquarters.told if r.subject == job and r.why is why]


def phases(headquarters: Headquarters) -> list[str]:
    return [headquarters.job(one).phase.value for one in MEMBERS]


def saved_together(headquarters: Headquarters, step: int, *, number: int = 1, final: bool = False) -> None:
    for run in RUNS:
        headquarters.captured(f"{run}-c{number}", step=step)
        headquarters.durable(f"{run}-c{number}", step=step, final=final)
