"""Gangs: whatever happens, no part of one is left behind, placed alone, or at a step of its own."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.resources import GIB, Request
from gpunion.policy.gangs.agreeing import (
    Reached,
    Round,
    interval_s,
    mark,
    newest_common,
    newest_unblamed,
    save_step,
)
from gpunion.policy.gangs.conduct import Act, Standing, conduct
from gpunion.policy.gangs.placing import AllPlaced, place_gang, room_for
from gpunion.policy.placement.pick import FastThenTight
from tests.builders import a_job, a_node, a_spec, a_view, facts
from tests.searching import QUICK

COUNTED = st.integers(min_value=0, max_value=4)
STANDINGS = st.lists(st.sampled_from(Standing), min_size=2, max_size=5)
HERE = (Standing.STARTING, Standing.RUNNING)
NEXT = {
    Act.SAVE_AND_GO: Standing.LEAVING,
    Act.STOP: Standing.STOPPING,
    Act.RUN_AGAIN: Standing.WAITING,
    Act.GO_BACK: Standing.WAITING,
}
ROUNDS = st.sets(st.tuples(st.integers(1, 3), st.integers(0, 3), st.just(0.0)))


def after(members: list[Standing], acts: tuple[Act, ...]) -> list[Standing]:
    return [NEXT.get(act, member) for member, act in zip(members, acts, strict=True)]


@QUICK
@given(STANDINGS)
def test_nobody_works_on_while_another_member_is_gone_or_has_failed(members: list[Standing]) -> None:
    now = after(members, conduct(members))
    if {Standing.WAITING, Standing.FAILED, Standing.SPOILED} & {*now}:
        left_alone = (
            Standing.LEAVING in now
        )  # a failure beside a leaving member is told apart when it has left
        assert left_alone or not any(one in HERE for one in now)
    if Standing.LEAVING in now:
        assert not any(one in HERE for one in now)


@QUICK
@given(STANDINGS)
def test_acting_once_is_enough(members: list[Standing]) -> None:
    acts = conduct(members)
    if not {Act.SUCCEED, Act.FAIL} & set(acts):
        assert set(conduct(after(members, acts))) == {Act.STAY}


def test_a_gang_is_over_when_all_have_ended_and_fails_with_any_of_them_unless_a_save_is_to_blame() -> None:
    for members in product((Standing.ENDED, Standing.FAILED, Standing.SPOILED), repeat=3):
        verdict = Act.FAIL if Standing.FAILED in members else Act.SUCCEED
        if Standing.SPOILED in members:
            verdict = Act.GO_BACK
        assert set(conduct(members)) == {verdict}


@QUICK
@given(STANDINGS)
def test_a_save_is_blamed_only_once_all_have_ended_and_none_was_interrupted(members: list[Standing]) -> None:
    over = (Standing.ENDED, Standing.FAILED, Standing.SPOILED)
    going_back = Act.GO_BACK in conduct(members)
    assert going_back == (Standing.SPOILED in members and all(one in over for one in members))


@QUICK
@given(st.lists(st.tuples(ROUNDS, ROUNDS), min_size=1, max_size=4))
def test_all_go_back_to_the_newest_round_that_each_still_has_and_nobody_blames(
    members: list[tuple[set[Round], set[Round]]],
) -> None:
    kept, blamed = [one for one, _ in members], [one for _, one in members]
    fit = [
        one
        for one in product(range(1, 4), range(4), (0.0,))
        if all(one in rounds for rounds in kept) and not any(one in rounds for rounds in blamed)
    ]
    assert newest_unblamed(kept, blamed) == max(fit, default=None)


@QUICK
@given(st.lists(st.tuples(COUNTED, st.integers(1, 5)), min_size=1, max_size=5), st.integers(2, 6))
def test_a_gang_is_placed_whenever_its_members_fit_and_takes_nothing_twice(
    nodes: list[tuple[int, int]], size: int
) -> None:
    views = [
        a_view(a_node(f"node-{number}", of=facts(gpus=gpus, terms=Terms(max_guests=guests))))
        for number, (gpus, guests) in enumerate(nodes)
    ]
    members = [a_job(f"job-r{rank}", spec=a_spec(request=Request(gpus=1))) for rank in range(size)]
    found = place_gang(members, views, 0.0, FastThenTight(), {JobId("job-r1"): NodeId("node-0")})
    room = sum(min(gpus, guests) for gpus, guests in nodes)
    assert room == sum(room_for(members[0], view, 0.0, FastThenTight(), 99) for view in views)
    if room < size:
        assert not isinstance(found, AllPlaced)
        assert found.found == room
        return
    assert isinstance(found, AllPlaced)
    assert found.places.keys() == {member.id for member in members}
    held = [(one.node_id, index) for one in found.places.values() for index in one.grant.gpu_indices]
    assert len(held) == len(set(held)) == size
    guests_of = dict(zip((view.node.id for view in views), (guests for _, guests in nodes), strict=True))
    for node_id, guests in guests_of.items():
        assert sum(one.node_id == node_id for one in found.places.values()) <= guests
    if nodes[0][0]:
        assert found.places[JobId("job-r1")].node_id == "node-0"  # what was kept for it


def test_members_ask_for_memory_and_cpus_too() -> None:
    view = a_view(a_node(of=facts(gpus=4, memory_gib=3, cpus=2)))
    greedy = a_job(spec=a_spec(request=Request(gpus=1, memory_bytes=2 * GIB)))
    busy = a_job(spec=a_spec(request=Request(gpus=1, cpus=1.0)))
    assert room_for(greedy, view, 0.0, FastThenTight(), 4) == 1
    assert room_for(busy, view, 0.0, FastThenTight(), 4) == 2


@QUICK
@given(st.lists(st.sets(st.integers(0, 6)), min_size=1, max_size=4))
def test_members_go_on_from_a_step_that_each_has_saved_and_no_later_one(saved: list[set[int]]) -> None:
    found = newest_common([{mark(step, asked_s=step) for step in steps} for steps in saved])
    shared = [one for one in range(7) if all(one in steps for steps in saved)]
    assert found == max((mark(one, asked_s=one) for one in shared), default=None)


@QUICK
@given(st.lists(st.tuples(st.sets(st.integers(0, 2)), st.floats(0.0, 9.0)), min_size=1, max_size=8))
def test_saves_without_steps_belong_together_where_all_were_asked_at_one_moment(
    asked: list[tuple[set[int], float]],
) -> None:
    """Whoever of three members could answer; and however late each save came."""
    saved = [{mark(0, asked_s) for answered, asked_s in asked if rank in answered} for rank in range(3)]
    answered_by = {asked_s: set[int]() for _, asked_s in asked}
    for answered, asked_s in asked:
        answered_by[asked_s] |= answered
    complete = [asked_s for asked_s, answered in answered_by.items() if len(answered) == 3]
    assert newest_common(saved) == max(((0, asked_s) for asked_s in complete), default=None)


@QUICK
@given(st.integers(1, 9), st.integers(1, 9), st.floats(0.0, 1e9), st.floats(0.0, 1e9))
def test_a_step_counts_whenever_it_was_asked_for_and_more_than_none(
    one: int, other: int, asked_s: float, later_s: float
) -> None:
    assert (mark(one, asked_s) < mark(other, later_s)) == (one < other)
    assert mark(0, asked_s) < mark(one, later_s)


@QUICK
@given(
    st.lists(st.tuples(st.integers(0, 1000), st.floats(0.0, 50.0)), min_size=1, max_size=4),
    st.floats(0.5, 3.0),
    st.data(),
)
def test_nobody_is_past_the_step_to_save_while_what_is_known_of_them_is_a_heartbeat_old(
    members: list[tuple[int, float]], heartbeat_s: float, data: st.DataObject
) -> None:
    known = [Reached(step=step, steps_per_s=pace) for step, pace in members]
    step = save_step(known, heartbeat_s)
    for one in known:
        age_s = data.draw(st.floats(0.0, heartbeat_s))
        assert one.step + one.steps_per_s * age_s < step


@QUICK
@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(1.0, 1e5)), min_size=1, max_size=5))
def test_a_gang_saves_at_least_as_often_as_its_most_endangered_member(
    members: list[tuple[str, float]],
) -> None:
    alone = [(NodeId(node), interval) for node, interval in members]
    together_s = interval_s(alone)
    shortest_s = min(interval for _, interval in alone)
    machines = len({node for node, _ in alone})
    assert shortest_s * machines**-0.5 * 0.999 <= together_s <= shortest_s * 1.001
