"""Single GPUs that are not lent, as agent and coordinator see them together."""

from __future__ import annotations

from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.nodes.withheld import HoldCause
from gpunion.domain.protocol.events import OwnerPaused, OwnerReclaimed, OwnerResumed
from tests.builders import Campus, a_campus, a_spec

OWN_WORK, SICK = HoldCause.OWN_WORK, HoldCause.SICK


def test_a_job_moves_from_the_wanted_gpu_to_the_other_one_and_home_does_not_matter() -> None:
    campus = a_campus(("alpha",), gpus=2)
    campus.submits("job", a_spec(expected_s=200))
    campus.advance(20)
    machine = campus.machine_of("job")
    gpu = machine.living()[0].order.grant.gpu_indices[0]
    machine.owner(OwnerReclaimed(notice_s=10, gpus=(gpu,), cause=OWN_WORK, detail="python (1)"))
    campus.advance(12)
    assert [process.order.grant.gpu_indices for process in machine.living()] == [(1 - gpu,)]
    assert machine.living()[0].resumed_step >= 20
    machine.owner(OwnerResumed(gpus=(gpu,), cause=OWN_WORK))
    campus.advance(300)
    assert campus.job().phase is JobPhase.SUCCEEDED
    assert campus.node("alpha").withheld == ()


def test_agent_and_coordinator_agree_on_what_is_lent_after_any_order_of_words() -> None:
    campus: Campus = a_campus(("alpha",), gpus=3)
    machine = campus.machines[campus.node("alpha").id]
    words = (
        OwnerPaused(gpus=(0,)),
        OwnerReclaimed(notice_s=5, gpus=(0, 1)),
        OwnerReclaimed(notice_s=5, gpus=(2,), cause=OWN_WORK, detail="x"),
        OwnerPaused(gpus=(2,)),
        OwnerReclaimed(notice_s=0, gpus=(1,), cause=SICK, detail="Xid 48"),
        OwnerPaused(),
        OwnerResumed(),
        OwnerReclaimed(notice_s=0, gpus=(0,), cause=OWN_WORK),
        OwnerResumed(gpus=(0,), cause=OWN_WORK),
    )
    for word in words:
        machine.owner(word)
        here = {(gpu.index, gpu.phase, gpu.cause) for gpu in machine.station.engine.state.holding.gpus}
        there = {(gpu.index, gpu.phase, gpu.cause) for gpu in campus.node("alpha").withheld}
        assert here == there, word
