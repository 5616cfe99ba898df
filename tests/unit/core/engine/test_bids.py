"""The owner of a job that runs in windows narrows what it bids for, and widens it again."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import BidsChanged, JobPhase, JobSpec, WindowWish
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.windows.wishes import in_words
from tests.builders.campus import Campus
from tests.builders.values import a_spec


def in_windows(**wish: object) -> JobSpec:
    return replace(a_spec(), atomizable=True, windows=WindowWish(**wish))  # type: ignore[arg-type]


def changes(campus: Campus, wish: WindowWish, job: str = "job") -> None:
    campus.decide(BidsChanged(job_id=JobId(job), windows=wish))
    campus.settle()


def test_a_job_that_bids_for_nothing_begins_nothing_until_it_may_again() -> None:
    campus = Campus()
    campus.adds("a")
    campus.submits("job", in_windows(bids=False))
    assert campus.job().phase is JobPhase.PENDING
    campus.advance(600.0)
    assert campus.job().phase is JobPhase.PENDING
    changes(campus, WindowWish())
    campus.advance(30.0)
    assert campus.job().phase is JobPhase.RUNNING
    assert Why.BIDS_CHANGED in campus.whys("job")


def test_who_asks_why_it_waits_is_told_that_its_owner_holds_it_back() -> None:
    campus = Campus()
    campus.adds("a")
    campus.submits("job", in_windows(bids=False))
    reasons = campus.station.engine.waits_because(campus.now_s, campus.job().id)
    assert [reason.why for reason in reasons] == [Why.BIDS_NOTHING]


def test_a_job_goes_where_its_owner_lets_it() -> None:
    campus = Campus()
    campus.adds("a")
    campus.submits("job", in_windows(not_on=(NodeId("a"),)))
    campus.advance(60.0)
    assert campus.job().phase is JobPhase.PENDING
    campus.adds("b")
    campus.advance(60.0)
    assert campus.job().phase is JobPhase.RUNNING
    assert campus.machine_of().node_id == "b"


def test_what_is_changed_for_a_job_that_is_over_or_runs_as_it_likes_changes_nothing() -> None:
    campus = Campus()
    campus.adds("a")
    campus.submits("rigid")
    before = campus.job("rigid").spec
    changes(campus, WindowWish(bids=False), "rigid")
    assert campus.job("rigid").spec == before
    campus.submits("job", in_windows())
    campus.stops("job")
    campus.advance(30.0)
    changes(campus, WindowWish(bids=False))
    assert Why.ALREADY_OVER in campus.whys("job")
    changes(campus, WindowWish(bids=False), "nobody")
    assert Why.UNKNOWN_JOB in campus.whys("nobody")


def test_what_a_job_bids_for_is_told_in_minutes_and_hours() -> None:
    assert in_words(WindowWish(shortest_s=1800.0, longest_s=7200.0)) == (
        "none shorter than 30 min; no piece longer than 2 h"
    )
