"""A node speaks for its own guests, a notice counts once, and who has left is not asked any more."""

from __future__ import annotations

from gpunion.domain.ids import JobId, RunId
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.events import OwnerReclaimed, OwnerResumed
from gpunion.domain.protocol.reports import NodeLeft, NoticeGiven, RunEnded
from gpunion.domain.reasons.reason import Why
from tests.builders import Headquarters, a_running_job, a_spec, an_agent_with_a_guest, reports, whys


def test_a_node_cannot_end_another_nodes_run() -> None:
    campus = a_running_job(nodes=("alpha", "beta"))
    here = campus.run().node_id
    other = "beta" if here == "alpha" else "alpha"
    lie = RunEnded(
        run_id=RunId("job-e1"), job_id=JobId("job"), epoch=1, reason=EndReason.FINISHED, last_step=9
    )
    decision = campus.reported(other, lie)
    assert whys(decision) == [Why.REPORT_REFUSED]
    assert decision.changes == ()
    assert campus.job().phase is JobPhase.RUNNING


def test_a_notice_that_is_shortened_is_one_departure() -> None:
    campus = a_running_job()
    campus.reported("alpha", NoticeGiven(deadline_s=campus.now_s + 60))
    campus.reported("alpha", NoticeGiven(deadline_s=campus.now_s + 10))
    assert campus.node().departures == 1


def test_a_job_waits_where_all_nodes_have_left() -> None:
    campus = Headquarters()
    campus.joins("alpha")
    campus.reported("alpha", NodeLeft())
    campus.submits("job", a_spec(gpus=1))
    assert campus.job().phase is JobPhase.PENDING


def test_a_guest_that_was_told_to_go_has_not_failed_though_the_owner_changed_their_mind() -> None:
    """It may heed SIGTERM only after the resume (simulator, seed 75)."""
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=30))
    agent.later(26).fires("term")
    agent.hears(OwnerResumed())
    told = reports(agent.exits(code=143))
    assert [report.reason for report in told if isinstance(report, RunEnded)] == [EndReason.DEADLINE]
