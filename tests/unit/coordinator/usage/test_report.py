"""Who used and lent how much, from what the coordinator's engine has recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.coordinator.usage.report import Asked, usage_of
from gpunion.domain.jobs.migration import Cause
from gpunion.domain.jobs.run import EndReason
from tests.builders.headquarters import Headquarters
from tests.builders.values import a_spec, facts, some_gpus

HOUR_S = 3600.0


def campus() -> Headquarters:
    here = Headquarters(now_s=1000.0)
    here.joins("alpha", facts(gpus=2, lab="vision"))
    return here


def since_the_beginning(here: Headquarters, **whom: str) -> Asked:
    return Asked(since_s=0.0, until_s=here.now_s, **whom)


def test_hours_are_lent_by_one_lab_and_borrowed_by_another() -> None:
    here = campus()
    here.submits("job", a_spec(gpus=2, lab="students"))
    here.started()
    here.now_s += HOUR_S
    found = usage_of(here.state, since_the_beginning(here))
    assert found.labs["vision"].lent_gpu_s == 2 * HOUR_S
    assert found.labs["students"].borrowed_gpu_s == 2 * HOUR_S
    [person] = found.people.values()
    assert (person.user, person.submitted, person.borrowed_gpu_s) == ("sam", 1, 2 * HOUR_S)


def test_what_a_lab_does_on_its_own_machines_is_lent_to_nobody() -> None:
    here = campus()
    here.submits("job", a_spec(lab="vision"))
    here.started()
    here.now_s += HOUR_S
    found = usage_of(here.state, since_the_beginning(here))
    lab = found.labs["vision"]
    assert (lab.used_gpu_s, lab.given_gpu_s, lab.lent_gpu_s, lab.borrowed_gpu_s) == (HOUR_S, HOUR_S, 0.0, 0.0)


def test_a_slice_of_a_card_counts_like_a_whole_one() -> None:
    here = Headquarters(now_s=1000.0)
    card = replace(some_gpus(1)[0], card="GPU-1", profile="1g.10gb")
    here.joins("alpha", facts(gpus=(card, replace(card, index=1)), lab="vision"))
    here.submits("job")
    here.started()
    here.now_s += HOUR_S
    assert usage_of(here.state, since_the_beginning(here)).used_gpu_s == HOUR_S


def test_only_the_part_within_the_time_asked_for_counts() -> None:
    here = campus()
    here.submits("job")
    here.started()
    here.now_s += HOUR_S
    asked = Asked(since_s=here.now_s - 60.0, until_s=here.now_s)
    found = usage_of(here.state, asked)
    assert found.used_gpu_s == 60.0
    assert [one.submitted for one in found.people.values()] == [0]


@pytest.mark.parametrize(("whom", "used"), [({"lab": "students"}, HOUR_S), ({"user": "nobody"}, 0.0)])
def test_only_whom_was_asked_for_counts(whom: dict[str, str], used: float) -> None:
    here = campus()
    here.submits("job")
    here.started()
    here.now_s += HOUR_S
    assert usage_of(here.state, since_the_beginning(here, **whom)).used_gpu_s == used


def test_a_machine_that_is_lost_loses_what_was_not_saved() -> None:
    here = campus()
    here.joins("beta", facts(gpus=2, lab="robots"))
    here.submits("job")
    here.started()
    first = here.run().node_id
    here.now_s += HOUR_S
    here.ended("job-e1", EndReason.GUEST_LOST, step=100)
    here.started("job-e2")
    [told] = usage_of(here.state, since_the_beginning(here)).causes.values()
    assert (told.cause, told.count, told.anew) == (Cause.GUEST_LOST, 1, 1)
    assert told.lost_gpu_s == pytest.approx(HOUR_S)
    assert told.moved == (here.run("job-e2").node_id != first)


def an_interrupted_job() -> Headquarters:
    """It has run for an hour, and a quarter of its steps is made again."""
    here = campus()
    here.joins("beta", facts(lab="robots"))
    here.submits("job")
    here.started()
    began_s = here.now_s
    here.fires("checkpoint:job-e1")
    here.captured("job-e1-c1", step=75)
    here.durable("job-e1-c1", step=75)
    here.now_s = began_s + HOUR_S
    here.ended("job-e1", EndReason.GUEST_LOST, step=100)
    here.started("job-e2", step=75, restored="job-e1-c1")
    return here


def test_what_a_job_goes_on_from_is_kept() -> None:
    here = an_interrupted_job()
    [told] = usage_of(here.state, since_the_beginning(here)).causes.values()
    assert told.lost_gpu_s == pytest.approx(HOUR_S / 4)
    assert told.kept_gpu_s == pytest.approx(3 * HOUR_S / 4)


def test_an_interruption_costs_the_same_however_far_back_somebody_looks() -> None:
    """What a run had done before the time asked for is no part of what was used in it."""
    here = an_interrupted_job()
    found = usage_of(here.state, Asked(since_s=here.now_s - 60.0, until_s=here.now_s))
    [told] = found.causes.values()
    assert found.used_gpu_s == pytest.approx(60.0)
    assert told.kept_gpu_s + told.lost_gpu_s == pytest.approx(HOUR_S)
    assert told.lost_gpu_s == pytest.approx(HOUR_S / 4)
