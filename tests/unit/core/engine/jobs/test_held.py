"""Jobs of which not everything could be read: no new run, nothing ended, nothing given away."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.held import HeldJob
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.commit import SavedCampus
from gpunion.domain.protocol.events import CoordinatorStarted, NodeReported
from gpunion.domain.protocol.reports import RunEnded
from gpunion.domain.reasons.reason import Why
from tests.builders.campus import Campus
from tests.builders.values import a_spec, facts


def held_in(campus: Campus, *, readable: bool = True) -> HeldJob:
    """The coordinator begins again, and cannot read all that it kept of the job called `job`."""
    saved, job = campus.saved(), campus.job()
    runs = tuple(run for run in campus.station.engine.state.runs.values() if run.job_id == job.id)
    held = HeldJob(
        id=job.id,
        why="a checkpoint of it cannot be read",
        job=job if readable else None,
        runs=runs if readable else (),
        nodes=() if readable else tuple(run.node_id for run in runs),
    )
    others = (record for record in saved.records if getattr(record, "job_id", record.id) != job.id)
    timers = tuple(
        (key, at_s) for key, at_s in saved.timers if not str(key).partition(":")[2].startswith(f"{job.id}-")
    )
    campus.falls()
    campus.station = campus._boot(replace(saved, records=(*others, held), timers=timers), term=2)
    campus.up = True
    campus.decide(CoordinatorStarted())
    campus.settle()
    return held


def running(gpus: int = 1) -> Campus:
    campus = Campus()
    campus.adds("a", facts(gpus=gpus))
    campus.submits()
    campus.advance(30.0)
    return campus


def state_of(campus: Campus) -> HeldJob:
    return campus.station.engine.state.held[JobId("job")]


def test_its_run_goes_on_and_keeps_its_gpu_and_it_gets_no_other() -> None:
    campus = running()
    held_in(campus)
    campus.adds("b", facts(gpus=1))
    campus.submits("next")
    campus.advance(300.0)
    assert len(campus.machines[NodeId("a")].living()) == 1
    assert campus.machine_of("next").node_id == "b"
    assert state_of(campus).may_run_on("a")
    assert Why.JOB_HELD in campus.whys("job")


def test_a_machine_that_may_have_a_run_nobody_can_read_takes_no_guest() -> None:
    campus = running(gpus=4)
    held_in(campus, readable=False)
    campus.submits("next")
    campus.advance(60.0)
    assert campus.job("next").phase is JobPhase.PENDING
    assert len(campus.machines[NodeId("a")].living()) == 1


def test_a_run_that_nobody_knew_of_is_learned_from_its_machine() -> None:
    campus = running()
    held = held_in(campus)
    campus.falls()
    unknown = replace(held, runs=(), nodes=())
    campus.station = campus._boot(SavedCampus(records=(campus.node("a"), unknown)), term=3)
    campus.up = True
    campus.advance(10.0)
    assert state_of(campus).nodes == ("a",)


def test_what_it_held_is_free_once_its_run_has_ended() -> None:
    campus = running()
    held_in(campus)
    campus.submits("next")
    machine = campus.machines[NodeId("a")]
    campus.advance(60.0)
    assert campus.job("next").phase is JobPhase.PENDING
    machine.exits("job-e1")
    campus.advance(60.0)
    assert not state_of(campus).may_run_on("a")
    assert Why.HELD_RUN_ENDED in campus.whys("job")
    assert campus.job("next").phase is JobPhase.RUNNING
    assert campus.job("next").epoch == 1


def test_giving_it_up_ends_its_run_for_good() -> None:
    campus = running()
    held_in(campus)
    campus.stops()
    campus.advance(60.0)
    assert campus.machines[NodeId("a")].living() == []
    assert state_of(campus).given_up
    assert not state_of(campus).may_run_on("a")
    campus.rises()
    campus.advance(300.0)
    assert campus.machines[NodeId("a")].living() == []
    campus.stops()
    assert campus.whys("job")[-1] is Why.ALREADY_OVER


def test_a_machine_cannot_say_that_a_run_of_another_has_ended() -> None:
    campus = running()
    held_in(campus)
    campus.adds("b")
    run = state_of(campus).runs[0]
    lie = RunEnded(run_id=run.id, job_id=run.job_id, epoch=1, reason=EndReason.FINISHED, last_step=3)
    campus.decide(NodeReported(node_id=NodeId("b"), report=lie))
    assert state_of(campus).runs == (run,)


def test_a_job_that_waits_is_not_started_while_it_is_held() -> None:
    campus = Campus()
    job: Job = campus.submits(spec=a_spec())
    held_in(campus)
    campus.adds("a")
    campus.advance(60.0)
    assert job.id not in campus.station.engine.state.jobs
    assert campus.machines[NodeId("a")].living() == []
