"""The flow-level network: shares are fair, links are never overfull, bytes neither vanish nor appear."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpunion.sim.kernel import Kernel
from gpunion.sim.network.fair_share import Demand, max_min_rates
from gpunion.sim.network.flows import BITS, DONE_BYTES, Network

LINKS = ("a", "b", "c", "d")

capacities = st.fixed_dictionaries({link: st.floats(1e3, 1e9) for link in LINKS})
demands = st.lists(
    st.builds(
        Demand,
        links=st.lists(st.sampled_from(LINKS), min_size=1, unique=True).map(tuple),
        cap_bps=st.none() | st.floats(1e2, 1e9),
    ),
    max_size=8,
)


@given(demands, capacities)
def test_no_link_carries_more_than_it_can(asked: list[Demand], capacity_bps: dict[str, float]) -> None:
    rates = max_min_rates(asked, capacity_bps)
    for link, capacity in capacity_bps.items():
        used = sum(rate for demand, rate in zip(asked, rates, strict=True) if link in demand.links)
        assert used <= capacity * (1 + 1e-9) + 1e-6


@given(demands, capacities)
def test_no_flow_exceeds_its_own_cap(asked: list[Demand], capacity_bps: dict[str, float]) -> None:
    for demand, rate in zip(asked, max_min_rates(asked, capacity_bps), strict=True):
        assert demand.cap_bps is None or rate <= demand.cap_bps * (1 + 1e-9)


@given(demands, capacities)
def test_who_is_not_capped_is_among_the_largest_on_a_full_link(
    asked: list[Demand], capacity_bps: dict[str, float]
) -> None:
    """The bottleneck condition, which is what max-min fair means."""
    rates = max_min_rates(asked, capacity_bps)

    def is_bottleneck(link: str, rate: float) -> bool:
        through = [other for demand, other in zip(asked, rates, strict=True) if link in demand.links]
        full = sum(through) >= capacity_bps[link] * (1 - 1e-6) - 10.0
        return full and rate >= max(through) * (1 - 1e-6) - 10.0

    for demand, rate in zip(asked, rates, strict=True):
        if demand.cap_bps is None or rate < demand.cap_bps * (1 - 1e-6) - 10.0:
            assert any(is_bottleneck(link, rate) for link in demand.links)


flows = st.lists(
    st.tuples(
        st.floats(0.0, 50.0),  # start
        st.floats(0.0, 1e7),  # bytes
        st.lists(st.sampled_from(LINKS), min_size=1, unique=True).map(tuple),
        st.none() | st.floats(1e5, 1e8),  # cap
        st.none() | st.floats(0.0, 20.0),  # cancelled after
    ),
    max_size=6,
)
shifts = st.lists(st.tuples(st.floats(0.0, 60.0), st.sampled_from(LINKS), st.floats(0.0, 0.9)), max_size=4)


@given(flows, shifts)
def test_bytes_are_conserved_whatever_comes_goes_and_shifts(planned, background) -> None:
    kernel = Kernel()
    network = Network(kernel, dict.fromkeys(LINKS, 1e8))
    started, arrived = [], []

    def begin(size_bytes, links, cap_bps, cancel_s) -> None:
        flow = network.start("flow", links, size_bytes, lambda: arrived.append(flow), cap_bps)
        started.append(flow)
        if cancel_s is not None:
            kernel.after(cancel_s, lambda: network.cancel(flow))

    for start_s, *rest in planned:
        kernel.at(start_s, partial(begin, *rest))
    for at_s, link, share in background:
        kernel.at(at_s, partial(network.set_background, link, share))
    kernel.run(100_000.0)

    assert network.flows == ()
    assert network.carried_bytes == pytest.approx(sum(flow.moved_bytes for flow in started), abs=1.0)
    for flow in arrived:
        assert flow.moved_bytes == flow.size_bytes
    for flow in started:
        assert flow.moved_bytes <= flow.size_bytes + DONE_BYTES
        assert flow in arrived or flow.done


def test_a_lone_flow_arrives_when_its_bytes_fit_the_link() -> None:
    kernel, seen = Kernel(), []
    network = Network(kernel, {"a": 8e6})
    network.start("one", ("a",), 1e6, lambda: seen.append(kernel.now_s))
    kernel.run(10.0)
    assert seen == [pytest.approx(1.0)]


def test_two_flows_share_and_the_rest_is_faster_when_one_is_done() -> None:
    kernel = Kernel()
    seen: dict[str, float] = {}
    network = Network(kernel, {"a": 8e6})
    network.start("short", ("a",), 1e6, lambda: seen.update(short=kernel.now_s))
    network.start("long", ("a",), 2e6, lambda: seen.update(long=kernel.now_s))
    kernel.run(10.0)
    assert seen == {"short": pytest.approx(2.0), "long": pytest.approx(3.0)}


def test_a_cut_link_holds_its_flows_until_it_is_mended() -> None:
    kernel, seen = Kernel(), []
    network = Network(kernel, {"a": 8e6})
    network.start("one", ("a",), 1e6, lambda: seen.append(kernel.now_s))
    kernel.at(0.5, lambda: network.cut(["a"]))
    kernel.at(5.5, lambda: network.mend(["a"]))
    kernel.run(10.0)
    assert seen == [pytest.approx(6.0)]


def test_background_traffic_takes_its_share_first() -> None:
    kernel, seen = Kernel(), []
    network = Network(kernel, {"a": 8e6})
    network.set_background("a", 0.5)
    network.start("one", ("a",), 1e6, lambda: seen.append(kernel.now_s))
    kernel.run(10.0)
    assert seen == [pytest.approx(2.0)]


def test_a_cancelled_flow_never_arrives_and_frees_its_share() -> None:
    kernel = Kernel()
    seen: list[object] = []
    network = Network(kernel, {"a": 8e6})
    gone = network.start("gone", ("a",), 1e6, lambda: seen.append("gone"))
    kernel.at(1.0, lambda: network.cancel(gone))
    network.start("kept", ("a",), 1e6, lambda: seen.append(kernel.now_s))
    kernel.run(10.0)
    assert seen == [pytest.approx(1.5)]
    assert gone.moved_bytes == pytest.approx(1.0 * 4e6 / BITS)
