"""Signs of owners, as a coordinator hears of them: what it counts, what it does about them, what it tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.jobs.job import CheckpointWish
from gpunion.domain.nodes.lending import CampusMemory, SignTally
from gpunion.domain.nodes.signs import Sign, Signs
from gpunion.domain.protocol.reports import NodeReclaimed, NodeResumed, SignsShown
from gpunion.domain.reasons.reason import Why
from gpunion.policy.hazard.buckets import DAY_S
from gpunion.policy.learning import Learning
from gpunion.policy.policies import BASELINE, LIVE
from gpunion.wire import codec
from tests.builders import Headquarters, a_spec, timers_of, whys
from tests.builders.gangs import RUNS, a_gang_spec

TYPING = (Sign.KEYBOARD,)


def a_campus(signs: Signs | None = ()) -> Headquarters:
    headquarters = Headquarters(policies=LIVE, now_s=1000.0)
    headquarters.joins("alpha")
    headquarters.reported("alpha", SignsShown(signs=signs))
    return headquarters


def tallies(headquarters: Headquarters) -> dict[Signs, SignTally]:
    campus = headquarters.state.memories.campus
    assert campus is not None
    return {one.shown: one for one in campus.signs}


def taught(headquarters: Headquarters) -> Headquarters:
    """Who types is about to come: so it was many times."""
    campus = headquarters.state.memories.campus
    assert campus is not None
    known = (
        SignTally(shown=(), departures=2.0, expected=60.0),
        SignTally(shown=TYPING, departures=58.0, expected=1.0),
    )
    headquarters.state.memories.put(replace(campus, signs=known, signs_as_of_s=headquarters.now_s))
    return headquarters


def kill(headquarters: Headquarters) -> None:
    headquarters.reported("alpha", NodeReclaimed(freed_after_s=1.0, killed=True))


def test_a_departure_is_put_down_to_what_was_shown_and_the_time_before_to_what_was_shown_then() -> None:
    headquarters = a_campus()
    headquarters.later(3600.0).reported("alpha", SignsShown(signs=TYPING))
    kill(headquarters.later(600.0))
    found = tallies(headquarters)
    assert (found[()].departures, found[TYPING].departures) == (0.0, 1.0)
    assert found[()].expected == pytest.approx(6 * found[TYPING].expected, rel=0.01)


def test_who_comes_right_after_a_sign_was_not_announced_by_it() -> None:
    headquarters = a_campus()
    headquarters.later(3600.0).reported("alpha", SignsShown(signs=(Sign.OWNER_LOGGED_IN,)))
    headquarters.later(20.0).reported("alpha", SignsShown(signs=(Sign.OWNER_LOGGED_IN, *TYPING)))
    kill(headquarters.later(60.0))
    departures = {shown: one.departures for shown, one in tallies(headquarters).items()}
    assert departures == {(): 1.0, (Sign.OWNER_LOGGED_IN,): 0.0, (Sign.OWNER_LOGGED_IN, *TYPING): 0.0}


def test_time_in_which_the_owner_has_the_machine_is_not_counted() -> None:
    headquarters = a_campus(TYPING)
    kill(headquarters.later(600.0))
    before = tallies(headquarters)[TYPING]
    headquarters.later(7200.0).reported("alpha", SignsShown(signs=()))
    assert tallies(headquarters) == {TYPING: before}
    headquarters.reported("alpha", NodeResumed())
    kill(headquarters.later(600.0))
    found = tallies(headquarters)
    assert found[()].expected == pytest.approx(found[TYPING].expected, rel=0.01)


def test_lessons_count_each_moment_once() -> None:
    headquarters = a_campus()
    unlearned = a_campus()
    for _ in range(30):
        headquarters.later(3600.0).fires("lesson")
    kill(headquarters)
    kill(unlearned.later(30 * 3600.0))
    # What a node that stays is expected to do is less with every lesson; counted twice it would be more.
    assert 0.3 < tallies(headquarters)[()].expected / tallies(unlearned)[()].expected < 1.0


def test_a_greeting_ends_what_was_told_and_loses_no_time() -> None:
    headquarters, heard = a_campus(), a_campus()
    headquarters.later(600.0).joins("alpha")
    assert headquarters.node().signs is None  # until its agent has said so again
    heard.later(600.0).reported("alpha", SignsShown(signs=None))
    assert tallies(headquarters) == tallies(heard)


def test_a_silence_counts_once_it_was_a_departure_and_only_up_to_its_beginning() -> None:
    headquarters, heard = a_campus(), a_campus()
    headquarters.later(600.0).silent("alpha")
    headquarters.later(7200.0).joins("alpha")
    kill(heard.later(600.0))
    assert tallies(headquarters) == tallies(heard)
    assert tallies(headquarters)[()].departures == 1.0
    short = a_campus()
    short.later(600.0).silent("alpha")
    short.later(10.0).joins("alpha")
    assert short.node().signs is None
    assert tallies(short) == {}


def test_a_restart_knows_what_signs_are_worth_and_the_record_is_small() -> None:
    headquarters = taught(a_campus())
    headquarters.later(DAY_S).reported("alpha", SignsShown(signs=TYPING))
    other = headquarters.restarts()
    one, same = (each.state.memories.hazard(Learning()) for each in (headquarters, other))
    assert one.factor(TYPING) == same.factor(TYPING) > 5.0
    assert other.node().signs == TYPING
    campus = CampusMemory(
        began_s=0.0,
        signs=tuple(SignTally(shown=tuple(Sign), departures=1 / 3, expected=1 / 3) for _ in range(8)),
    )
    assert len(codec.encode(campus)) < 2000


def test_guests_save_sooner_when_signs_with_a_meaning_are_shown_and_not_again_after_each_greeting() -> None:
    headquarters = taught(a_campus())
    headquarters.submits()
    headquarters.started()
    planned_s = headquarters.timer_at("checkpoint:job-e1")
    assert planned_s is not None
    shown = headquarters.later(5.0).reported("alpha", SignsShown(signs=TYPING))
    sooner_s = timers_of(shown)["checkpoint:job-e1"]
    assert sooner_s is not None
    assert sooner_s - 1000.0 < (planned_s - 1000.0) / 2
    assert shown.reasons == ()  # nobody is told what an owner does
    headquarters.joins("alpha")
    assert "checkpoint:job-e1" not in timers_of(headquarters.reported("alpha", SignsShown(signs=TYPING)))


def test_what_is_said_of_machines_to_a_job_does_not_tell_who_is_there() -> None:
    headquarters = taught(a_campus())
    headquarters.submits("another")
    headquarters.submits()
    headquarters.joins("beta")
    headquarters.joins("gamma")
    headquarters.reported("gamma", SignsShown(signs=()))
    told = headquarters.engine.explain(headquarters.now_s, headquarters.job().id)
    assert [one.node for one in told if one.fits] == ["gamma"]
    headquarters.reported("gamma", SignsShown(signs=TYPING))
    assert headquarters.engine.explain(headquarters.now_s, headquarters.job().id) == told


def test_who_comes_and_goes_many_times_makes_guests_save_no_sooner_than_who_stays() -> None:
    stays, comes_and_goes = taught(a_campus()), taught(a_campus())
    for headquarters in (stays, comes_and_goes):
        headquarters.submits()
        headquarters.started()
    for signs in ((), TYPING, ()):
        comes_and_goes.later(5.0).reported("alpha", SignsShown(signs=signs))
    for headquarters in (stays.later(15.0), comes_and_goes):
        headquarters.later(5.0).reported("alpha", SignsShown(signs=TYPING))
    due_s, again_s = (each.timer_at("checkpoint:job-e1") for each in (stays, comes_and_goes))
    assert again_s == pytest.approx(due_s, rel=0.01)


def test_no_sign_makes_a_guest_save_more_often_than_its_user_wants() -> None:
    headquarters = taught(a_campus())
    headquarters.submits("job", replace(a_spec(), checkpoint=CheckpointWish(min_interval_s=3600.0)))
    headquarters.started()
    assert timers_of(headquarters.reported("alpha", SignsShown(signs=TYPING))) == {}


def test_a_gang_saves_sooner_when_the_owner_of_one_of_its_machines_is_seen() -> None:
    headquarters = taught(a_campus())
    headquarters.joins("beta")
    headquarters.submits("job", a_gang_spec())
    for run in RUNS:
        headquarters.started(run)
    planned_s = headquarters.timer_at("checkpoint:job-e1")
    assert planned_s is not None
    shown = timers_of(headquarters.later(5.0).reported("alpha", SignsShown(signs=TYPING)))
    assert 1005.0 < (shown["checkpoint:job-e1"] or 0.0) < planned_s


def test_signs_that_go_away_or_mean_nothing_move_no_save() -> None:
    headquarters = a_campus()
    headquarters.submits()
    headquarters.started()
    assert timers_of(headquarters.reported("alpha", SignsShown(signs=TYPING))) == {}
    assert timers_of(taught(headquarters).reported("alpha", SignsShown(signs=()))) == {}


def test_a_bundle_that_does_not_learn_counts_nothing() -> None:
    headquarters = Headquarters(policies=BASELINE)
    headquarters.joins("alpha")
    headquarters.reported("alpha", SignsShown(signs=()))
    headquarters.reported("alpha", SignsShown(signs=TYPING))
    assert headquarters.state.memories.campus is None
    assert headquarters.node().signs == TYPING


def test_what_is_said_twice_or_by_nobody_changes_nothing() -> None:
    headquarters = a_campus(TYPING)
    assert headquarters.later(5.0).reported("alpha", SignsShown(signs=(*TYPING, *TYPING))).changes == ()
    assert whys(headquarters.reported("nobody", SignsShown(signs=()))) == [Why.UNKNOWN_NODE]
