"""Windows: which ends when and why, what they are worth, and what a clearing tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import SaveCost
from gpunion.domain.jobs.profile import Profile, Seen, program_of
from gpunion.domain.jobs.window import Promise, Window, WindowEnd
from gpunion.domain.nodes.node import DiskRoom, NodePhase
from gpunion.domain.nodes.node_view import NodeView
from gpunion.policy.policies import LIVE
from gpunion.policy.windows.bidding import Bidder, variants
from gpunion.policy.windows.calibration import learned
from gpunion.policy.windows.clearing import Exact, clear, smoothed
from gpunion.policy.windows.gaps import END_GUARD_S, may_be_offered, window_over
from gpunion.policy.windows.promises import Place, Tenant, promise
from gpunion.policy.windows.scoring import DEADLINES, FAIR, WEIGHTS, behind
from gpunion.policy.windows.sizing import STEPS_MOST, sizing_of
from gpunion.policy.windows.turns import TurnBounds, is_over, turn_s
from tests.builders.values import a_job, a_node, a_view

BOUNDS = TurnBounds()
COST = SaveCost(restart_s=20.0, stall_s=2.0)


def over(view: NodeView, *, turn_s: float | None = None, promised_s: float | None = None) -> Window:
    return window_over(view.node, view.free_gpus, 1000.0, turn_s=turn_s, promised_s=promised_s)


def test_a_window_ends_with_what_comes_first() -> None:
    view = a_view(a_node())
    assert (over(view).ends_s, over(view).end) == (None, WindowEnd.OPEN)
    assert over(view, turn_s=600.0).end is WindowEnd.TURN
    promised = over(view, turn_s=600.0, promised_s=1500.0)
    assert (promised.ends_s, promised.end) == (1500.0, WindowEnd.PROMISED)
    assert promised.end.hard
    foretold = replace(view, node=replace(view.node, known_end_s=1400.0))
    ends = over(foretold, turn_s=600.0, promised_s=1500.0)
    assert (ends.ends_s, ends.end) == (1400.0 - END_GUARD_S, WindowEnd.KNOWN_END)
    assert ends.length_s == 400.0 - END_GUARD_S


@pytest.mark.parametrize("step_s", [5e-324, 1e-305, 1e-160, 1e-12])
@pytest.mark.parametrize("left_s", [None, 1.0, 3e10])
def test_however_short_its_steps_are_what_fits_can_be_reckoned(step_s: float, left_s: float | None) -> None:
    profile = Profile(steps=5.0, step_s=step_s, step_sd_s=step_s)
    bidder = Bidder(job_id=JobId("job"), profile=profile, cost=COST, left_s=left_s)
    for turn in (None, 600.0, 3e10):
        for variant in variants(bidder, 0, over(a_view(a_node()), turn_s=turn), BOUNDS):
            assert 0 < variant.steps <= STEPS_MOST
            assert variant.useful_s <= variant.length_s


def test_nothing_is_offered_where_nobody_may_come() -> None:
    view = a_view(a_node())
    assert may_be_offered(view)
    node = view.node
    for other in (
        replace(node, phase=NodePhase.PAUSED),
        replace(node, unheard=True),
        replace(node, isolated_because="it lies"),
        replace(node, facts=replace(node.facts, disk=DiskRoom.SHORT)),
    ):
        assert not may_be_offered(replace(view, node=other))
    assert not may_be_offered(replace(view, guests=node.facts.terms.max_guests))


def test_a_turn_lasts_twenty_times_what_coming_and_going_costs() -> None:
    sizing = sizing_of(Profile(begins_s=(40.0,) * 19, saves_s=(20.0,) * 19), COST)
    assert turn_s(sizing, BOUNDS) == 1200.0
    assert turn_s(sizing, TurnBounds(least_s=1.0, most_s=5.0)) == 5.0
    assert turn_s(sizing_of(Profile(), SaveCost(restart_s=1.0)), BOUNDS) == BOUNDS.least_s
    assert is_over(100.0, 600.0, 700.0)
    assert not is_over(100.0, 600.0, 699.0)
    with pytest.raises(ValueError, match="shortest turn"):
        TurnBounds(least_s=10.0, most_s=5.0)


def test_a_short_window_is_taken_by_who_ends_in_it_and_nobody_else() -> None:
    profile = Profile(steps=1000, step_s=1.0, begins_s=(20.0,) * 19, saves_s=(2.0,) * 19)
    window = Window(
        node_id=NodeId("a"),
        gpus=(0,),
        vram_bytes=1,
        speed=1.0,
        starts_s=0.0,
        ends_s=100.0,
        end=WindowEnd.KNOWN_END,
    )
    long = Bidder(job_id=JobId("a"), profile=profile, left_s=5000.0)
    assert variants(long, 0, window, BOUNDS) == ()
    short = replace(long, left_s=30.0)
    (piece,) = variants(short, 0, window, BOUNDS)
    assert (piece.steps, piece.finishes) == (30, True)
    assert variants(replace(short, only=frozenset({1})), 0, window, BOUNDS) == ()
    assert variants(replace(short, incumbent=1), 0, window, BOUNDS) == ()
    assert variants(replace(short, gpus=2), 0, window, BOUNDS) == ()
    assert variants(replace(short, declared_bytes=2), 0, window, BOUNDS) == ()


def test_where_owners_come_back_often_a_shorter_piece_is_among_the_bids() -> None:
    profile = Profile(steps=1000, step_s=1.0, begins_s=(20.0,) * 19, saves_s=(2.0,) * 19)
    window = Window(
        node_id=NodeId("a"),
        gpus=(0,),
        vram_bytes=1,
        speed=1.0,
        starts_s=0.0,
        ends_s=7200.0,
        end=WindowEnd.TURN,
        stays=0.1,
    )
    lengths = [
        piece.length_s for piece in variants(Bidder(job_id=JobId("a"), profile=profile), 0, window, BOUNDS)
    ]
    assert len(lengths) == 4
    assert min(lengths) < 400.0


def test_bundles_weigh_what_their_names_say() -> None:
    for weights in WEIGHTS.values():
        assert weights.finishes + weights.behind + weights.warm == pytest.approx(1.0)
        campus = (weights.share, weights.age, weights.hunger, weights.fit, weights.stays)
        assert sum(campus) == pytest.approx(1.0)
    late = Bidder(job_id=JobId("late"), behind=1.0, served_s=3600.0)
    new = Bidder(job_id=JobId("new"), left_s=500.0)
    window = Window(
        node_id=NodeId("a"),
        gpus=(0,),
        vram_bytes=1,
        speed=1.0,
        starts_s=0.0,
        ends_s=2000.0,
        end=WindowEnd.TURN,
    )
    for weights, wins in ((DEADLINES, "late"),):
        found = clear([window], [new, late], clearing=Exact(), weights=weights, bounds=BOUNDS, rate=0.0)
        assert [award.job_id for award in found.awards] == [wins]


def test_a_clearing_without_windows_or_bidders_is_empty() -> None:
    found = clear([], [Bidder(job_id=JobId("a"))], clearing=Exact(), weights=FAIR, bounds=BOUNDS, rate=0.0)
    assert found.silent
    assert found.worth_per_gpu_s is None


def test_the_rate_follows_what_was_awarded_slowly() -> None:
    assert smoothed(0.0, 0.4) == 0.4
    assert 0.4 < smoothed(0.4, 0.8) < 0.5
    assert smoothed(0.4, None) == 0.4


def test_how_late_a_job_is_is_a_part_of_its_work() -> None:
    assert behind(a_job(), 0.0) == 0.0
    spec = replace(a_job().spec, expected_s=1000.0, finish_within_s=2000.0)
    late = replace(a_job(), spec=spec, submitted_s=0.0)
    assert 0.0 < behind(late, 1500.0) <= 1.0


def test_a_promise_leaves_out_machines_that_are_wanted_before() -> None:
    soon = Place(
        node_id=NodeId("soon"),
        free=(0,),
        tenants=(Tenant(job_id=JobId("t"), gpus=(1,), free_by_s=100.0),),
        until_s=150.0,
    )
    later = replace(
        soon,
        node_id=NodeId("later"),
        free=(),
        until_s=None,
        tenants=(replace(soon.tenants[0], gpus=(0, 1), free_by_s=300.0),),
    )
    assert promise(2, [soon, later], 0.0, given=0, least_stay_s=60.0) == Promise(
        node_id=NodeId("later"), gpus=(0, 1), by_s=300.0
    )
    assert promise(2, [soon], 0.0, given=0) == Promise(node_id=NodeId("soon"), gpus=(0, 1), by_s=100.0)
    assert promise(2, [soon], 0.0, given=2) is None
    nobody_knows = replace(soon, tenants=(replace(soon.tenants[0], free_by_s=None),))
    assert promise(2, [nobody_knows], 0.0, given=0) is None
    assert promise(3, [soon], 0.0, given=0) is None


def test_what_nobody_knows_of_a_piece_changes_nothing() -> None:
    before = Profile(steps=10, step_s=2.0)
    assert learned(before, Seen(), 1.0) == before


def test_a_program_is_known_by_its_image_and_its_script() -> None:
    small, large = ("python", "train.py", "--lr", "1"), ("python", "-u", "train.py", "--size", "9")
    assert program_of(None, small) == program_of(None, large)
    assert program_of("torch:2", small) != program_of(None, small) != program_of(None, ("python", "eval.py"))


def test_a_campus_has_windows_unless_told_otherwise() -> None:
    assert LIVE.windows is not None
