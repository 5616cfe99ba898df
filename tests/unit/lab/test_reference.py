"""The reference campus: machines dealt to groups, owners who come as their demand says, work that fits."""

from __future__ import annotations

from gpunion.lab.reference import campus, work
from gpunion.lab.reference.absences import Absence, OwnerTrace, apart, own
from gpunion.lab.reference.departures import Manner, Manners, departures, last_part, learned
from gpunion.lab.reference.scenario import Setting, Traces, reference_campus
from gpunion.lab.traces.records import Demand
from gpunion.sim.scenario.values import DAY_S
from gpunion.sim.streams import Streams

HOUR_S = 3600.0


def demand(*levels: tuple[float, float], total: float = 10.0, pool: str = "lab") -> tuple[Demand, ...]:
    return tuple(Demand(pool=pool, at_s=at_s, total=total, running=running) for at_s, running in levels)


def by_day(days: int) -> OwnerTrace:
    """Two groups: one works from nine to five, one never does."""
    busy = [
        level
        for day in range(days)
        for level in ((day * DAY_S + 9 * HOUR_S, 9.0), (day * DAY_S + 17 * HOUR_S, 0.0))
    ]
    return OwnerTrace(
        from_s=0.0,
        to_s=days * DAY_S,
        demand={
            "busy": demand((0.0, 0.0), *busy, pool="busy"),
            "idle": demand((0.0, 0.0), (days * DAY_S, 0.0), pool="idle"),
        },
    )


def a_campus(**changes):
    shapes = (work.Shape(in_week_s=HOUR_S, seconds=1800.0, gpus=1),)
    setting = Setting(seed=1, horizon_s=DAY_S, kinds=campus.PUBLISHED, **changes)
    return reference_campus(Traces(owners=by_day(8), shapes=shapes), setting)


def test_the_reference_campus_has_54_machines_in_three_buildings():
    nodes = [campus.node_plan(m, "lab", n, 60.0) for n, m in enumerate(campus.machines())]
    assert len(nodes) == 54
    assert len({node.facts.building for node in nodes}) == 3
    assert {node.facts.capacity.uplink_bps for node in nodes} == {1e9, 10e9}


def test_groups_get_machines_in_proportion_and_only_the_busy_one_leaves():
    ownership = own(campus.machines(), by_day(7), Streams(1))
    gpus = {machine.name: machine.kind.gpus for machine in campus.machines()}
    of_busy = sum(gpus[name] for name, lab in ownership.lab_of.items() if lab == "busy")
    assert abs(of_busy - sum(gpus.values()) / 2) <= 8
    for name, lab in ownership.lab_of.items():
        assert bool(ownership.absences[name]) <= (lab == "busy")


def test_a_machine_is_lent_again_half_an_hour_after_its_owner_needed_it_last():
    ownership = own(campus.machines(), by_day(1), Streams(1))
    ends = {absence.to_s for absences in ownership.absences.values() for absence in absences}
    assert ends == {17 * HOUR_S + 1800.0}


def test_absences_that_touch_are_one():
    assert apart([Absence(5, 9), Absence(0, 5), Absence(20, 30)]) == [Absence(0, 9), Absence(20, 30)]


def test_a_sweep_of_manners_changes_manners_and_nothing_else():
    trace = by_day(8)
    ownership, window = own(campus.machines(), trace, Streams(1)), last_part(trace, DAY_S)
    none, every = (
        departures(ownership, window, Manners(unannounced_share=share), Streams(1)) for share in (0.0, 1.0)
    )
    assert {d.manner for of_node in none.values() for d in of_node} == {Manner.NOTICE}
    assert Manner.NOTICE not in {d.manner for of_node in every.values() for d in of_node}
    assert [[d.at_s for d in of_node] for of_node in none.values()] == [
        [d.at_s for d in of_node] for of_node in every.values()
    ]


def test_only_what_was_before_the_first_second_is_learned_from():
    trace = by_day(8)
    ownership, window = own(campus.machines(), trace, Streams(1)), last_part(trace, DAY_S)
    coming = departures(ownership, window, Manners(), Streams(1))
    book = learned(coming, trace.from_s - window.starts_s, window.utc_offset_s)
    before = sum(d.at_s <= 0.0 for of_node in coming.values() for d in of_node)
    assert sum(history.ever_departures for history in book.histories.values()) == before
    assert not window.repeated
    assert last_part(trace, 30 * DAY_S).repeated


def test_work_is_what_the_load_asks_for_and_the_same_for_one_seed():
    made = a_campus(load=0.5)
    assert made.scenario == a_campus(load=0.5).scenario
    asked = sum(job.program.steps * job.spec.request.gpus for job in made.scenario.jobs)
    more = sum(job.program.steps * job.spec.request.gpus for job in a_campus(load=1.0).scenario.jobs)
    assert more > 1.9 * asked
