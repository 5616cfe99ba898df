"""A piece on less memory than its job asked for: its program is told how much, and may fail on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.profile import Profile
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB, Request
from gpunion.policy.policies import LIVE
from tests.builders.campus import Campus
from tests.builders.values import a_spec, facts, some_gpus

LEARNED = Profile(peaks_bytes=(4 * GIB,) * 19, pieces=19)


def a_campus(*, card_gib: float, lent_gib: int | None, declared_gib: int = 16) -> Campus:
    """A machine with one card, lent in full or in part, and a job that was seen to need 4 GiB."""
    campus = Campus(policies=LIVE)
    vram_bytes = None if lent_gib is None else lent_gib * GIB
    gpus = some_gpus(memory_gib=card_gib)
    spec = replace(a_spec(request=Request(gpus=1, vram_bytes=declared_gib * GIB)), atomizable=True)
    campus.submits(spec=spec)
    jobs = campus.station.engine.state.jobs
    jobs[campus.job().id] = replace(campus.job(), profile=LEARNED)
    campus.adds("small", facts(gpus=gpus, terms=Terms(vram_bytes=vram_bytes)))
    campus.advance(120.0)
    return campus


@pytest.mark.parametrize(("card_gib", "lent_gib"), [(8, None), (24, 8)])
def test_its_program_is_told_how_much_and_fails_on_it_for_nothing(
    card_gib: float, lent_gib: int | None
) -> None:
    campus = a_campus(card_gib=card_gib, lent_gib=lent_gib)
    [process] = campus.machines[campus.machine_of().node_id].living()
    subjob = process.order.subjob
    assert subjob is not None
    assert subjob.limit_bytes == 8 * GIB
    campus.machine_of().exits(process.order.run_id, 1)
    job = campus.job()
    assert not job.phase.over, campus.told
    assert Why.FAILED_ON_LESS in campus.whys("job")
    assert job.profile is not None
    assert job.profile.floor_bytes == 8 * GIB + 1
    assert Why.FAILED not in campus.whys("job")


def test_who_has_what_it_asked_for_is_not_limited_and_fails_by_itself() -> None:
    campus = a_campus(card_gib=24, lent_gib=None)
    [process] = campus.machine_of().living()
    assert process.order.subjob is not None
    assert process.order.subjob.limit_bytes == 0
    campus.machine_of().exits(process.order.run_id, 1)
    assert campus.job().phase is JobPhase.FAILED
