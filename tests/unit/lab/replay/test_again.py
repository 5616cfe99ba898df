"""A recorded campus is run again, as it was and otherwise."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.jobs.job import JobSpec
from gpunion.domain.nodes.node import NodePhase
from gpunion.lab.replay.added_machines import added
from gpunion.lab.replay.again import scenario_of, waits_again
from gpunion.lab.replay.owners import FIRST_WORD_S, STARTS_S, owner_plans
from gpunion.lab.replay.recorded import WEEK_HOURS, PastJob, PastLab, PastMachine, Recorded
from gpunion.sim.streams import Streams
from tests.builders.values import a_spec, facts

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
ALPHA = PastMachine(name="alpha", facts=facts(gpus=1, lab="vision"))
AT_NINE = tuple(7 if hour % 24 == 9 else 0 for hour in range(WEEK_HOURS))


def a_past_job(submit_s: float, work_s: float | None = HOUR_S, **changes: object) -> PastJob:
    spec: JobSpec = a_spec(gpus=1, lab="students")
    return replace(PastJob(spec=spec, submit_s=submit_s, measured=True, work_s=work_s), **changes)  # type: ignore[arg-type]


def a_day(*jobs: PastJob, labs: tuple[PastLab, ...] = ()) -> Recorded:
    return Recorded(length_s=DAY_S, counted_s=DAY_S, began_hour=0, jobs=jobs, labs=labs, machines=(ALPHA,))


def test_a_second_machine_ends_the_wait_of_the_second_job() -> None:
    day = a_day(a_past_job(0.0), a_past_job(0.0), a_past_job(0.0))
    alone = waits_again(day, [ALPHA], seed=1)
    together = waits_again(day, [ALPHA, added(2, "card", 1, day.machines).machine], seed=1)
    assert HOUR_S / 2 < alone.median_s < 2 * HOUR_S
    assert together.median_s < 60.0
    assert alone.never_ran == together.never_ran == 0


def test_a_job_that_nothing_can_hold_waits_to_the_end() -> None:
    large = a_past_job(0.0, spec=a_spec(gpus=1), gang=1)
    day = a_day(a_past_job(0.0, work_s=2 * DAY_S), large)
    found = waits_again(day, [ALPHA], seed=1)
    assert found.never_ran == 1
    assert found.mean_s > DAY_S / 3


def test_one_seed_says_one_thing() -> None:
    lab = PastLab(name="vision", departures_by_hour=AT_NINE, open_share=0.7)
    day = a_day(a_past_job(0.0), a_past_job(HOUR_S), labs=(lab,))
    assert waits_again(day, [ALPHA], seed=3) == waits_again(day, [ALPHA], seed=3)


def test_owners_come_when_those_of_their_lab_came() -> None:
    lab = PastLab(name="vision", departures_by_hour=AT_NINE, open_share=0.9)
    week = replace(a_day(labs=(lab,)), length_s=4 * 7 * DAY_S, counted_s=4 * 7 * DAY_S)
    [plan] = owner_plans(week, [ALPHA], Streams(1))
    hours = [int(act.at_s // HOUR_S) % 24 for act in plan.acts if act.do == "reclaim"]
    assert len(hours) > 14
    assert set(hours) == {9}


WEEK_S = 7 * DAY_S
FULL = replace(ALPHA, phases=((-60.0, NodePhase.SHARING),))


def acts_of(machine: PastMachine, *labs: PastLab) -> list[tuple[str, float]]:
    week = replace(a_day(labs=labs), length_s=WEEK_S, counted_s=WEEK_S, machines=(machine,))
    [plan] = owner_plans(week, [machine], Streams(1))
    return [(act.do, act.at_s) for act in plan.acts]


def test_a_machine_that_joined_in_that_time_is_not_there_before() -> None:
    joined_s = WEEK_S - HOUR_S
    newcomer = replace(FULL, joined_s=joined_s, phases=((joined_s, NodePhase.SHARING),))
    assert acts_of(newcomer) == [("kill", FIRST_WORD_S), ("resume", joined_s + STARTS_S)]
    paused = replace(FULL, joined_s=joined_s, phases=((joined_s, NodePhase.PAUSED),))
    assert [do for do, _ in acts_of(paused)] == ["kill", "resume", "pause"]


def test_a_machine_whose_word_begins_with_the_time_is_there_from_the_start() -> None:
    assert [do for do, _ in acts_of(FULL)] == ["resume"]
    joined_now = replace(FULL, joined_s=3.0, phases=((3.0, NodePhase.SHARING),))
    assert [do for do, _ in acts_of(joined_now)] == ["resume"]


def test_before_an_owner_let_it_be_kept_comings_and_goings_are_drawn() -> None:
    lab = PastLab(name="vision", departures_by_hour=AT_NINE, open_share=0.9)
    said_s = WEEK_S / 2
    machine = replace(FULL, joined_s=-DAY_S, phases=((said_s, NodePhase.SHARING),))
    before = [do for do, at_s in acts_of(machine, lab) if at_s < said_s + STARTS_S]
    assert "reclaim" in before
    assert acts_of(machine, lab)[len(before) :] == [("resume", said_s + STARTS_S)]
    assert acts_of(machine) == [("resume", said_s + STARTS_S)]


def test_machines_that_stay_have_the_same_owners_whatever_is_added() -> None:
    lab = PastLab(name="vision", departures_by_hour=AT_NINE, open_share=0.9)
    day = a_day(labs=(lab,))
    [alone] = owner_plans(day, [ALPHA], Streams(1))
    beside = owner_plans(day, [added(1, "card", 1, day.machines).machine, ALPHA], Streams(1))
    assert beside[1] == alone


def test_who_was_there_before_is_run_and_not_measured() -> None:
    day = a_day(a_past_job(0.0, measured=False), a_past_job(60.0, waited_s=120.0))
    assert day.waits_s() == [120.0]
    assert len(scenario_of(day, [ALPHA], 1).jobs) == 2


def test_a_job_of_unknown_length_is_as_long_as_the_usual_one() -> None:
    day = a_day(a_past_job(0.0, work_s=500.0), a_past_job(0.0, work_s=None))
    known, unknown = scenario_of(day, [ALPHA], 1).jobs
    assert unknown.program.steps == known.program.steps == 50


def test_an_added_card_is_as_large_as_one_of_the_campus() -> None:
    machine = added(2, "card", 1, (ALPHA,)).machine
    assert [gpu.memory_bytes for gpu in machine.facts.capacity.gpus] == [
        ALPHA.facts.capacity.gpus[0].memory_bytes
    ] * 2
