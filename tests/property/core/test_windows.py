"""Pieces of work and the windows they are cut for: what must hold whatever is known, and whoever bids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from math import log, sqrt
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import SaveCost
from gpunion.domain.jobs.profile import Profile, Reliability, Seen
from gpunion.domain.jobs.window import Variant, Window, WindowEnd
from gpunion.policy.windows.bidding import Bidder, variants
from gpunion.policy.windows.calibration import (
    RHO_LEAST,
    believed,
    doubted,
    learned,
    missed,
    piece_error,
    short_of_memory,
)
from gpunion.policy.windows.clearing import Bid, Clearing, Exact, clear, urgency
from gpunion.policy.windows.promises import PROMISES_MOST, Place, Tenant, promise, promise_all
from gpunion.policy.windows.scoring import FAIR, WEIGHTS
from gpunion.policy.windows.simpler_clearings import CLEARINGS
from gpunion.policy.windows.sizing import RISK, memory_bytes, sizing_of
from gpunion.policy.windows.turns import TurnBounds, turn_s

GIB = 1024**3
BOUNDS = TurnBounds()
PIECES, WARM_UP = 2000, 30
MOST_MISSED = RISK + 3 * sqrt(RISK * (1 - RISK) / PIECES)

times_s = st.lists(st.floats(0.0, 2000.0), max_size=20).map(tuple)
profiles = st.builds(
    Profile,
    steps=st.floats(0.0, 1e5),
    step_s=st.one_of(st.just(0.0), st.floats(1e-4, 900.0)),
    step_sd_s=st.floats(0.0, 900.0),
    begins_s=times_s,
    saves_s=times_s,
    peaks_bytes=st.lists(st.integers(1, 80 * GIB), max_size=128).map(tuple),
    stretch=st.floats(1.0, 20.0),
    floor_bytes=st.integers(0, 80 * GIB),
    out_of_memory=st.integers(0, 3),
)
costs = st.builds(SaveCost, stall_s=st.floats(0.0, 300.0), restart_s=st.floats(0.0, 600.0))
windows = st.builds(
    Window,
    node_id=st.sampled_from([NodeId(name) for name in "abc"]),
    gpus=st.integers(1, 4).map(lambda count: tuple(range(count))),
    vram_bytes=st.integers(1, 80).map(lambda gib: gib * GIB),
    speed=st.floats(0.1, 3.0),
    starts_s=st.just(1000.0),
    ends_s=st.one_of(st.none(), st.floats(1000.0, 90_000.0)),
    end=st.sampled_from(WindowEnd),
    stays=st.floats(0.0, 1.0),
)


@st.composite
def bidders(draw: st.DrawFn, index: int = 0, incumbent: int | None = None) -> Bidder:
    return Bidder(
        job_id=JobId(f"job-{index}"),
        gpus=draw(st.integers(1, 4)),
        profile=draw(profiles),
        cost=draw(costs),
        declared_bytes=draw(st.integers(0, 80)) * GIB,
        learned=draw(st.booleans()),
        safe_every=draw(st.integers(1, 50)),
        wanted_s=draw(st.one_of(st.none(), st.floats(0.0, 7200.0))),
        longest_s=draw(st.one_of(st.none(), st.floats(1.0, 7200.0))),
        left_s=draw(st.one_of(st.none(), st.floats(0.0, 1e6))),
        waited_s=draw(st.floats(0.0, 1e5)),
        served_s=draw(st.floats(0.0, 1e6)),
        behind=draw(st.floats(0.0, 1.0)),
        standing=draw(st.floats(-1e7, 1e7)),
        rho=draw(st.floats(0.2, 1.0)),
        priority=draw(st.integers(0, 2)),
        incumbent=incumbent,
    )


@given(bidders(), windows, st.booleans())
def test_no_piece_ends_after_its_window(bidder: Bidder, window: Window, has_it: bool) -> None:
    bidder = _with_window(bidder) if has_it else bidder
    found = variants(bidder, 0, window, BOUNDS)
    assert len(found) <= 4
    for piece in found:
        most_s = turn_s(bidder.sizing, BOUNDS) if window.length_s is None else window.length_s
        assert 0 <= piece.useful_s <= piece.length_s <= most_s * (1 + 1e-9)
        assert piece.vram_bytes <= window.vram_bytes
        if piece.steps and bidder.sizing.step_s:
            foretold_s = bidder.sizing.foretold_s(piece.steps, window.speed, begun=has_it)
            assert foretold_s <= most_s * (1 + 1e-9)
            assert piece.finishes or piece.steps % bidder.safe_every == 0


def _with_window(bidder: Bidder) -> Bidder:
    return replace(bidder, incumbent=0)


@given(profiles, costs, st.floats(1.0, 90_000.0), st.floats(0.1, 3.0), st.integers(1, 50))
def test_one_safe_point_more_would_not_fit(
    profile: Profile, cost: SaveCost, length_s: float, speed: float, safe_every: int
) -> None:
    sizing = sizing_of(profile, cost)
    steps = sizing.steps_within(length_s, speed, safe_every)
    if sizing.step_s > 0 and steps < 10**9:
        assert steps == 0 or sizing.foretold_s(steps, speed) <= length_s
        assert sizing.foretold_s(steps + 2 * safe_every, speed) > length_s * (1 - 1e-9)


def _normal(random: Random, piece: int) -> float:
    return max(0.1, random.gauss(10.0, 3.0))


def _lognormal(random: Random, piece: int) -> float:
    return random.lognormvariate(log(8.0), 0.8)


def _bimodal(random: Random, piece: int) -> float:
    return random.gauss(40.0, 5.0) if random.random() < 0.1 else random.gauss(6.0, 1.0)


def _drifting(random: Random, piece: int) -> float:
    """Its mean doubles and halves again every hundred pieces."""
    phase = piece % 100 / 100
    return max(0.1, random.gauss(8.0 * (1 + min(phase, 1 - phase) * 2), 2.0))


@pytest.mark.parametrize("step_s", [_normal, _lognormal, _bimodal, _drifting])
@pytest.mark.parametrize("seed", [1, 2])
def test_few_pieces_take_longer_than_their_window(step_s: Callable[[Random, int], float], seed: int) -> None:
    """Though nobody stops them: each takes as many steps as were foretold, and then its save."""
    random, profile, cost = Random(seed), Profile(), SaveCost(restart_s=20.0, stall_s=5.0)
    late = counted = 0
    for piece in range(PIECES + WARM_UP):
        window_s, speed = random.uniform(400.0, 3600.0), random.choice((0.5, 1.0, 1.6))
        sizing = sizing_of(profile, cost)
        steps = sizing.steps_within(window_s, speed) or 5
        begin_s, save_s = random.lognormvariate(3.0, 0.2), random.lognormvariate(1.6, 0.2)
        times_s = [step_s(random, piece) / speed for _ in range(steps)]
        took_s = begin_s + sum(times_s) + save_s
        foretold_s = sizing.foretold_s(steps, speed) if profile.steps else window_s
        seen = _seen(times_s, begin_s, save_s, foretold_s, took_s)
        if took_s > window_s:
            profile = missed(profile, seen, speed)
        else:
            profile = learned(profile, seen, speed)
        if piece >= WARM_UP:
            late, counted = late + (took_s > window_s), counted + 1
    assert counted == PIECES
    assert late / PIECES <= MOST_MISSED


def _seen(times_s: list[float], begin_s: float, save_s: float, foretold_s: float, took_s: float) -> Seen:
    mean_s = sum(times_s) / len(times_s)
    return Seen(
        steps=len(times_s),
        step_s=mean_s,
        step_sd_s=sqrt(sum((one - mean_s) ** 2 for one in times_s) / len(times_s)),
        worst_step_s=max(times_s),
        begin_s=begin_s,
        save_s=save_s,
        foretold_s=foretold_s,
        took_s=took_s,
    )


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("shape", ["normal", "lognormal", "bimodal", "growing"])
def test_few_pieces_need_more_memory_than_they_are_given(shape: str, seed: int) -> None:
    random, profile, declared = Random(seed), Profile(), 80 * GIB
    short = counted = 0
    for piece in range(PIECES + WARM_UP):
        given = memory_bytes(profile, declared)
        peak = min(declared, int(_peak_gib(random, piece, shape) * GIB))
        counted += piece >= WARM_UP
        if peak > given:
            short += piece >= WARM_UP
            profile = short_of_memory(profile, given)
        else:
            profile = learned(profile, Seen(peak_bytes=peak, foretold_s=100.0, took_s=90.0), 1.0)
        assert memory_bytes(profile, declared) <= declared
    assert short / counted <= MOST_MISSED


def _peak_gib(random: Random, piece: int, shape: str) -> float:
    match shape:
        case "normal":
            return random.gauss(20.0, 3.0)
        case "lognormal":
            return random.lognormvariate(log(15.0), 0.3)
        case "bimodal":
            return random.gauss(30.0, 1.0) if random.random() < 0.1 else random.gauss(12.0, 1.0)
        case _:
            return random.gauss(10.0 + 30.0 * piece / PIECES, 2.0)


@st.composite
def bids(draw: st.DrawFn) -> list[Bid]:
    """Up to 6 windows, 7 bidders, 4 pieces."""
    found = []
    for job in range(draw(st.integers(1, 7))):
        bidder = Bidder(job_id=JobId(f"job-{job}"))
        for window in draw(st.sets(st.integers(0, 5), max_size=6)):
            for worth in draw(st.lists(st.floats(0.0, 1e5), max_size=4)):
                piece = Variant(
                    job_id=bidder.job_id,
                    window=window,
                    steps=0,
                    useful_s=worth,
                    length_s=1.0 + worth / 7,
                    vram_bytes=0,
                    finishes=False,
                )
                found.append(Bid(bidder=bidder, variant=piece, worth=worth))
    return found


@settings(max_examples=200)
@given(bids())
def test_clearing_is_as_good_as_trying_everything(offered: list[Bid]) -> None:
    windows = sorted({bid.variant.window for bid in offered})
    best = _by_search(offered)
    assert _value(Exact(), windows, offered) == pytest.approx(best, abs=1e-3)
    assert _value(CLEARINGS["stack"], windows, offered) >= best / 2 - 1e-3
    for clearing in CLEARINGS.values():
        assert _value(clearing, windows, offered) <= best + 1e-3


def _value(clearing: Clearing, windows: Sequence[int], offered: Sequence[Bid]) -> float:
    won = clearing.choose(windows, offered)
    assert len({bid.variant.window for bid in won}) == len(won) == len({bid.variant.job_id for bid in won})
    return sum(bid.worth for bid in won)


def _by_search(offered: Sequence[Bid]) -> float:
    windows = sorted({bid.variant.window for bid in offered})

    @cache
    def best(at: int, jobs: frozenset[JobId]) -> float:
        if at == len(windows):
            return 0.0
        values = [best(at + 1, jobs)]
        for bid in offered:
            if bid.variant.window == windows[at] and bid.variant.job_id not in jobs:
                values.append(bid.worth + best(at + 1, jobs | {bid.variant.job_id}))
        return max(values)

    return best(0, frozenset())


@st.composite
def clearings(draw: st.DrawFn) -> tuple[list[Window], list[Bidder]]:
    offered = draw(st.lists(windows, min_size=1, max_size=4))
    free = list(range(len(offered)))
    found = []
    for index in range(draw(st.integers(1, 6))):
        tenant = draw(st.booleans()) and bool(free)
        found.append(draw(bidders(index=index, incumbent=free.pop(0) if tenant else None)))
    return offered, found


@settings(max_examples=60)
@given(clearings(), st.sampled_from(sorted(WEIGHTS)), st.floats(0.0, 1.0), st.randoms())
def test_the_order_of_bidders_changes_nothing(
    case: tuple[list[Window], list[Bidder]], weights: str, rate: float, random: Random
) -> None:
    offered, who = case
    mixed = [*who]
    random.shuffle(mixed)
    first, second = (
        clear(offered, some, clearing=Exact(), weights=WEIGHTS[weights], bounds=BOUNDS, rate=rate)
        for some in (_without_starved(who), _without_starved(mixed))
    )
    assert first.awards == second.awards
    assert sorted(first.lost) == sorted(second.lost)


def _without_starved(who: list[Bidder]) -> list[Bidder]:
    """Those go first in the order of the queue, which is meant to count."""
    return [replace(one, waited_s=min(one.waited_s, 3600.0)) for one in who]


@settings(max_examples=60)
@given(clearings(), st.sampled_from(sorted(CLEARINGS)))
def test_what_is_cleared_is_what_was_bid(case: tuple[list[Window], list[Bidder]], name: str) -> None:
    offered, who = case
    found = clear(offered, who, clearing=CLEARINGS[name], weights=FAIR, bounds=BOUNDS, rate=0.2)
    jobs = {bidder.job_id: bidder for bidder in who}
    assert len({award.window for award in found.awards}) == len(found.awards)
    assert len({award.job_id for award in found.awards}) == len(found.awards)
    for award in found.awards:
        bidder = jobs[award.job_id]
        assert award.variant in variants(bidder, award.window, offered[award.window], BOUNDS)
        higher = [one for one in who if one.priority > bidder.priority and one.job_id in found.lost]
        for other in higher:  # never a lower class where a higher one could have been
            assert not variants(other, award.window, offered[award.window], BOUNDS)


def test_who_lost_often_or_waited_long_is_first() -> None:
    window = _window(ends_s=4600.0)
    richer = Bidder(job_id=JobId("b"), behind=1.0, warm=frozenset({NodeId("a")}))
    for bounds, waited_s in ((BOUNDS, 20 * 600.0), (TurnBounds(least_s=900.0), 4 * 3600.0)):
        waits = Bidder(job_id=JobId("a"), waited_s=waited_s, served_s=90_000.0)
        for who, wins in ((waits, "a"), (replace(waits, waited_s=waited_s - 1.0), "b")):
            found = clear([window], [richer, who], clearing=Exact(), weights=FAIR, bounds=bounds, rate=0.0)
            assert [award.job_id for award in found.awards] == [wins]
        assert found.lost == (JobId("a"),)


def test_the_starved_are_among_the_bidders_then_whoever_was_served_least() -> None:
    waiting = {
        "starved": (15_000.0, 9e5),
        "new": (5.0, 0.0),
        "had a turn": (600.0, 3600.0),
        "had more": (600.0, 7200.0),
    }
    assert sorted(waiting, key=lambda name: urgency(*waiting[name], BOUNDS)) == [*waiting]


def test_a_tenant_stays_where_nobody_is_worth_a_tenth_more() -> None:
    window = _window(ends_s=4600.0)
    tenant = Bidder(job_id=JobId("a"), incumbent=0)
    like_it = Bidder(job_id=JobId("b"))
    found = clear([window], [like_it, tenant], clearing=Exact(), weights=FAIR, bounds=BOUNDS, rate=0.0)
    assert [award.job_id for award in found.awards] == ["a"]


def _window(*, ends_s: float | None) -> Window:
    return Window(
        node_id=NodeId("a"),
        gpus=(0,),
        vram_bytes=24 * GIB,
        speed=1.0,
        starts_s=1000.0,
        ends_s=ends_s,
        end=WindowEnd.TURN,
    )


@st.composite
def places(draw: st.DrawFn, name: str = "a") -> Place:
    gpus = draw(st.integers(1, 8))
    holder = [draw(st.integers(0, 3)) for _ in range(gpus)]  # 0: free
    free_by_s = st.one_of(st.none(), st.floats(0.0, 1e5))
    return Place(
        node_id=NodeId(name),
        free=tuple(gpu for gpu in range(gpus) if holder[gpu] == 0),
        tenants=tuple(
            Tenant(
                job_id=JobId(f"{name}-{one}"),
                gpus=tuple(gpu for gpu in range(gpus) if holder[gpu] == one),
                free_by_s=draw(free_by_s),
            )
            for one in sorted(set(holder) - {0})
        ),
        until_s=draw(st.one_of(st.none(), st.floats(0.0, 2e5))),
    )


@given(st.integers(2, 8), st.lists(places(), max_size=5), st.floats(0.0, 1e4), st.integers(0, 3))
def test_a_promise_is_the_soonest_that_anybody_can_keep(
    gpus: int, offered: list[Place], now_s: float, given: int
) -> None:
    found = promise(gpus, offered, now_s, given=given)
    if found is None:
        return
    assert given < PROMISES_MOST
    assert len(set(found.gpus)) == gpus
    assert found.by_s >= now_s
    assert any(set(found.gpus) <= set(_keepable(place)) for place in offered)


def _keepable(place: Place) -> Iterator[int]:
    yield from place.free
    for tenant in place.tenants:
        if tenant.free_by_s is not None:
            yield from tenant.gpus


@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=3),
    st.data(),
)
def test_a_gang_is_promised_what_all_of_it_can_have_soonest(
    members: int, gpus: int, sizes: list[tuple[int, int]], data: st.DataObject
) -> None:
    offered = [(data.draw(places(f"n{number}")), most) for number, (_, most) in enumerate(sizes)]
    found = promise_all(members, gpus, offered, 0.0, least_stay_s=60.0)
    if found is None:
        return
    (by_s,) = {one.by_s for one in found}
    assert len(found) == members
    taken = [(one.node_id, gpu) for one in found for gpu in one.gpus]
    assert len(set(taken)) == len(taken) == members * gpus
    for place, most in offered:
        its = [one for one in found if one.node_id == place.node_id]
        assert len(its) <= most
        assert {gpu for one in its for gpu in one.gpus} <= set(_keepable(place))
        assert not its or place.until_s is None or by_s + 60.0 <= place.until_s
    # Nobody could have room for all of them before: so many seats are free by then at each machine.
    sooner = sum(
        min(most, sum(free_s < by_s for free_s in _free_from_s(place)) // gpus) for place, most in offered
    )
    assert sooner < members or any(place.until_s is not None for place, _ in offered)


def _free_from_s(place: Place) -> Iterator[float]:
    yield from (0.0 for _ in place.free)
    for tenant in place.tenants:
        if tenant.free_by_s is not None:
            yield from (tenant.free_by_s for _ in tenant.gpus)


@given(st.lists(st.floats(0.0, 1.0), max_size=30))
def test_who_promises_too_much_is_believed_less_and_then_again(errors: list[float]) -> None:
    one = Reliability(id="0", user="ann", program="train")
    for error in errors:
        before, one = one, believed(one, error, 0.0)
        assert RHO_LEAST <= one.rho <= 1.0
        assert error or one.rho >= before.rho - 1e-6
    for _ in range(5):
        one = believed(one, 0.0, 0.0)
    assert one.rho >= 0.7


def test_five_broken_promises_leave_little_belief() -> None:
    one = Reliability(id="0", user="ann", program="train")
    said = []
    for _ in range(5):
        one = believed(one, piece_error(promised=100, durable=0, foretold_s=60, took_s=60), 0.0)
        said.append(one.rho)
    assert said == sorted(said, reverse=True)
    assert said[-1] < 0.45
    assert doubted(one, 0.0).rho == pytest.approx(max(RHO_LEAST, said[-1] / 2), abs=1e-6)


def test_a_program_that_becomes_ten_times_slower_is_followed_within_five_pieces() -> None:
    profile = Profile()
    for step_s in (1.0,) * 10 + (10.0,) * 5:
        profile = learned(profile, _seen([step_s] * 200, 20.0, 5.0, 400.0, 380.0), 1.0)
    assert profile.step_s > 6.0


def test_out_of_memory_twice_in_a_row_and_it_gets_what_it_declared() -> None:
    profile = Profile(peaks_bytes=(10 * GIB,) * 40)
    assert memory_bytes(profile, 24 * GIB) < 11 * GIB
    once = short_of_memory(profile, 12 * GIB)
    assert 12 * GIB < memory_bytes(once, 24 * GIB) < 24 * GIB
    assert memory_bytes(short_of_memory(once, 13 * GIB), 24 * GIB) == 24 * GIB
