"""What must always hold of copies made ahead: lists share the free GPUs out, and the wire's share is kept."""

from __future__ import annotations

from math import inf

from hypothesis import event, given
from hypothesis import strategies as st

from gpunion.domain.ids import CheckpointId, NodeId
from gpunion.domain.jobs.job import DurablePoint, Job, SaveCost
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.resources import GIB
from gpunion.policy.expected_loss import ExpectedLoss
from gpunion.policy.staging import LIKELIHOOD, SHORTLIST, Offer, PreStaging, building_budget_bytes
from tests.builders import a_job, a_node, a_view, facts

POLICY = PreStaging(loss=ExpectedLoss())
HOME = NodeId("home")
gpu_counts = st.lists(st.integers(1, 4), min_size=1, max_size=8)


def campus_of(counts: list[int]) -> list[NodeView]:
    return [a_view(a_node(f"node{n}", of=facts(gpus=count))) for n, count in enumerate(counts)]


def saved(id: str, *, gpus: int = 1, size_gib: float = 4.0, ship_gib: float = 0.4) -> Job:
    point = DurablePoint(
        checkpoint_id=CheckpointId(f"{id}-e1-c1"),
        step=1,
        progress=0.1,
        at_s=0.0,
        size_bytes=int(size_gib * GIB),
    )
    return a_job(id, gpus=gpus, durable=point, cost=SaveCost(ship_bytes=int(ship_gib * GIB)))


@given(gpu_counts, st.lists(st.integers(1, 2), min_size=1, max_size=6))
def test_jobs_share_the_free_gpus_out_while_there_are_enough(counts: list[int], needs: list[int]) -> None:
    views, counted = campus_of(counts), dict.fromkeys((NodeId(f"node{n}") for n in range(len(counts))), 0)
    free = {view.node.id: len(view.free_gpus) for view in views}
    for number, gpus in enumerate(needs):
        listed = POLICY.shortlist(saved(f"job{number}", gpus=gpus), views, counted, leaving=HOME, now_s=0.0)
        uncounted = [node for node in free if free[node] - counted[node] >= gpus]
        assert set(listed[: len(uncounted)]) <= set(uncounted)
        for node in listed:
            counted[node] += gpus
        if len(uncounted) >= SHORTLIST:
            assert all(counted[node] <= free[node] for node in listed)


@given(
    gpu_counts, st.dictionaries(st.sampled_from([NodeId(f"node{n}") for n in range(8)]), st.integers(0, 9))
)
def test_what_others_count_on_never_blocks(counts: list[int], counted: dict[NodeId, int]) -> None:
    views, job = campus_of(counts), saved("job")
    alone = POLICY.shortlist(job, views, {}, leaving=HOME, now_s=0.0)
    beside_others = POLICY.shortlist(job, views, counted, leaving=HOME, now_s=0.0)
    assert len(beside_others) == len(alone) == min(SHORTLIST, len(views))
    assert NodeId("node0") not in POLICY.shortlist(job, views, counted, leaving=NodeId("node0"), now_s=0.0)


@given(st.lists(st.tuples(st.floats(0.0, 50.0), st.integers(1, 16 * GIB)), max_size=60))
def test_copies_never_use_more_than_their_share_of_a_building(wishes: list[tuple[float, int]]) -> None:
    used = 0
    for saves_gpu_s, move_bytes in wishes:
        offer = Offer(node_id=HOME, move_bytes=move_bytes, saves_gpu_s=saves_gpu_s)
        if POLICY.pays(offer, (used + move_bytes) / building_budget_bytes()):
            used += move_bytes
    assert used <= building_budget_bytes()


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_the_price_of_a_byte_grows_with_use_and_ends_at_the_share(one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert POLICY.price(less) <= POLICY.price(more) < inf
    assert POLICY.price(1.0 + 1e-9) == inf


@given(st.floats(60.0, 86_400.0), st.floats(60.0, 86_400.0), st.floats(0.05, 0.5))
def test_whoever_leaves_sooner_is_worth_a_copy_more(one_s: float, other_s: float, share: float) -> None:
    """Departures a day and more are what tells a risky machine from a safe one here."""
    job = saved("job", ship_gib=4.0 * share)
    calm, wild = (a_node("home", joined_s=0.0, departures=n) for n in (0, 40))
    places = [a_node("there")]
    [safe] = POLICY.offers(job, calm, places, max(one_s, other_s))
    [risky] = POLICY.offers(job, wild, places, max(one_s, other_s))
    assert 0.0 <= safe.saves_gpu_s <= risky.saves_gpu_s
    assert risky.saves_gpu_s <= LIKELIHOOD[0] * 8.0 * 4 * GIB / places[0].facts.lent_uplink_bps


@given(
    st.integers(0, 60),
    st.floats(0.05, 0.5),
    st.lists(st.sampled_from([1e8, 1e9, 1e10]), min_size=1, max_size=SHORTLIST),
    st.floats(0.0, 1.0),
)
def test_where_nothing_may_pay_no_offer_pays(
    departures: int, share: float, wires_bps: list[float], used: float
) -> None:
    job, home = saved("job", ship_gib=4.0 * share), a_node("home", joined_s=0.0, departures=departures)
    places = [a_node(f"node{n}", of=facts(uplink_bps=bps)) for n, bps in enumerate(wires_bps)]
    may_pay = POLICY.may_pay(job, home, min(wires_bps), 86_400.0)
    pay = any(POLICY.pays(offer, used) for offer in POLICY.offers(job, home, places, 86_400.0))
    event(f"pays: {pay}, may pay: {may_pay}")
    assert may_pay or not pay
