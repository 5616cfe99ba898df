"""A bundle learns only what nobody chose for it."""

from __future__ import annotations

import pytest

from gpunion.lab.evaluation.baselines import RoundRobin
from gpunion.policy.checkpoint_timing.interval import FixedInterval, Young
from gpunion.policy.checkpoint_timing.notices import NoticeBook
from gpunion.policy.destination import BestFit, RandomDestination
from gpunion.policy.hazard.weekly import WeeklyHazard
from gpunion.policy.learning import Answers, Learning
from gpunion.policy.placement.pick import FastThenTight, Scoring
from gpunion.policy.policies import LIVE, Policies
from gpunion.policy.staging import PreStaging


def learned() -> Answers:
    return Learning().answers(WeeklyHazard(), NoticeBook())


def test_what_runs_on_a_campus_uses_what_the_campus_has_learned() -> None:
    answers, policies = learned(), LIVE.informed(learned())
    assert policies.scoring == answers.scoring
    assert policies.checkpointing == answers.timing
    assert policies.destination == answers.destination
    assert policies.staging == answers.staging


@pytest.mark.parametrize("scoring", [RoundRobin(), FastThenTight()])
def test_a_scoring_that_was_given_stays(scoring: Scoring) -> None:
    given = Policies(name="given", scoring=scoring, learning=Learning())
    assert given.informed(learned()).scoring is scoring


def test_every_other_answer_that_was_given_stays() -> None:
    timing, destination, staging = (
        FixedInterval(),
        RandomDestination(),
        PreStaging(loss=learned().destination),
    )
    given = Policies(name="given", checkpointing=timing, destination=destination, staging=staging)
    informed = given.informed(learned())
    assert (informed.checkpointing, informed.destination, informed.staging) == (timing, destination, staging)


def test_the_usual_answer_stays_where_it_was_chosen() -> None:
    chosen = Policies(name="chosen", checkpointing=Young(), destination=BestFit())
    informed = chosen.informed(learned())
    assert (informed.checkpointing, informed.destination) == (chosen.checkpointing, chosen.destination)
