"""What labs have given is counted as it is given, and never less than before."""

from __future__ import annotations

from gpunion.coordinator.metrics.contribution import Contribution
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.reports import NodeLeft
from tests.builders.headquarters import Headquarters
from tests.builders.values import facts

HOUR_S = 3600.0


def a_lent_machine() -> Headquarters:
    campus = Headquarters()
    campus.joins("alpha", facts(gpus=1, lab="vision"))
    campus.submits()
    campus.started()
    return campus


def test_a_machine_counts_while_it_is_lent_and_no_second_twice_at_the_end() -> None:
    campus = a_lent_machine()
    contribution = Contribution(campus.state, campus.now_s)
    campus.now_s += HOUR_S
    assert contribution.look(campus.state, campus.now_s) == {"vision": HOUR_S}
    campus.ended("job-e1", EndReason.FINISHED, exit_code=0)
    assert contribution.look(campus.state, campus.now_s) == {"vision": HOUR_S}


def test_a_coordinator_that_starts_counts_from_nothing() -> None:
    campus = a_lent_machine()
    campus.now_s += HOUR_S
    contribution = Contribution(campus.state, campus.now_s)
    assert contribution.look(campus.state, campus.now_s) == {"vision": 0.0}
    campus.now_s += 1.0
    assert contribution.look(campus.state, campus.now_s) == {"vision": 1.0}


def test_a_machine_that_leaves_and_joins_another_lab_takes_nothing_along() -> None:
    campus = a_lent_machine()
    contribution = Contribution(campus.state, campus.now_s)
    campus.now_s += HOUR_S
    campus.ended("job-e1", EndReason.FINISHED, exit_code=0)
    contribution.look(campus.state, campus.now_s)
    campus.reported("alpha", NodeLeft())
    campus.joins("alpha", facts(gpus=1, lab="robots"), incarnation="second")
    assert contribution.look(campus.state, campus.now_s) == {"robots": 0.0, "vision": HOUR_S}
    campus.submits("job2")
    campus.started("job2-e1")
    campus.now_s += 60.0
    assert contribution.look(campus.state, campus.now_s) == {"robots": 60.0, "vision": HOUR_S}
