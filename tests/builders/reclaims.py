"""A job whose node is wanted back, and the move that follows."""

from __future__ import annotations

from gpunion.domain.jobs.migration import Migration
from gpunion.domain.protocol.reports import NoticeGiven
from tests.builders import Headquarters, a_running_job


def two_nodes(notice_s: float = 60.0) -> tuple[Headquarters, str]:
    """One job running, its node wanted back, a second node free. The node, and headquarters after it."""
    headquarters = a_running_job(nodes=["alpha", "beta"])
    headquarters.later(10)
    node = headquarters.run().node_id
    headquarters.reported(node, NoticeGiven(deadline_s=headquarters.now_s + notice_s))
    return headquarters, node


def migration(headquarters: Headquarters, number: int = 1, job: str = "job") -> Migration:
    return next(m for m in headquarters.state.migrations.values() if m.id == f"{job}-m{number}")
