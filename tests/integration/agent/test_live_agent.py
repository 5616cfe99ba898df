"""A real agent process, real guests in the sandbox, a real vault; the coordinator is a station in memory."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.node import NodePhase
from gpunion.owner_kill import kill_all
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.download import restore_directory
from tests.integration.agent.campus import TestCampus, eventually
from tests.integration.agent.machine import DEAF, FOREVER, ODD, TRAIN, Machine

pytestmark = pytest.mark.requires("bwrap")

# For the test in which a lease comes to its end.
SHORT_LEASE = pytest.mark.parametrize("campus", [10.0], indirect=True)
# Longer than a save can take on a busy machine: who is saved sooner leaves sooner.
NOTICE_S = 60


async def test_a_job_runs_is_saved_and_finishes_with_its_output(campus: TestCampus, machine: Machine) -> None:
    machine.boot()
    job = campus.submit("job-1", TRAIN, STEPS="300")
    await eventually(lambda: campus.step(job) > 0, "a checkpoint is durable")
    await eventually(lambda: campus.job(job).phase.over, "the job ends")
    assert campus.job(job).phase is JobPhase.SUCCEEDED, campus.story
    assert campus.job(job).output == "job-1-e1-output"
    await eventually(lambda: b"finished" in campus.logs.get("job-1-e1", b""), "the log arrives")
    await eventually(
        lambda: not list((machine.state_dir / "guests").iterdir()), "nothing is left of the guest"
    )


async def test_an_output_that_finds_its_vault_away_is_told_with_the_reason_and_arrives_when_it_is_back(
    campus: TestCampus, machine: Machine
) -> None:
    machine.boot()
    job = campus.submit("job-1", TRAIN, STEPS="600")  # it is not over before the vault is away
    await eventually(lambda: campus.step(job) > 0, "a checkpoint is durable")
    away = machine.vault.rename(machine.vault.with_name("away"))
    await eventually(lambda: bool(campus.runs(job)[0].output_trouble), "the trouble is heard")
    [told] = [line for line in campus.story if "its program has ended" in line and "Next:" in line]
    assert "where its saves are kept did not answer" in told
    assert "Next: the operator of the campus's vault brings it back" in told
    assert campus.runs(job)[0].held_gpus == ()
    away.rename(machine.vault)
    await eventually(lambda: campus.job(job).phase.over, "the job ends")
    assert campus.job(job).phase is JobPhase.SUCCEEDED, campus.story
    assert campus.job(job).output == "job-1-e1-output"


async def running(campus: TestCampus, machine: Machine, name: str = "job-1") -> JobId:
    """A job that never ends, running on the machine, with a durable checkpoint."""
    job = campus.submit(name, TRAIN, STEPS=FOREVER)
    await eventually(lambda: campus.step(job) > 0, "a checkpoint is durable")
    assert machine.living_guests()
    return job


async def test_a_killed_agent_comes_back_to_its_guest_which_never_noticed(
    campus: TestCampus, machine: Machine
) -> None:
    machine.boot()
    job = await running(campus, machine)
    machine.crash()
    assert machine.living_guests() == ["job-1-e1"]
    machine.boot()
    before = campus.step(job)
    await eventually(lambda: campus.step(job) > before, "the adopted guest is saved again")
    assert [run.epoch for run in campus.runs(job)] == [1], campus.story
    assert campus.logs["job-1-e1"].count(b"beginning") == 1


async def test_a_stopped_agent_leaves_its_guest_to_the_next_one(campus: TestCampus, machine: Machine) -> None:
    machine.boot()
    job = await running(campus, machine)
    machine.signal_agent(signal.SIGTERM)
    assert machine.agent is not None
    assert await asyncio.to_thread(machine.agent.wait, 60) == 0
    assert "start it again to keep them" in machine.log.read_text()
    assert machine.living_guests() == ["job-1-e1"]
    machine.boot()
    before = campus.step(job)
    await eventually(lambda: campus.step(job) > before, "the adopted guest is saved again")
    assert [run.epoch for run in campus.runs(job)] == [1]


async def test_a_machine_that_is_shut_down_saves_its_guest_first_and_lends_again_after_the_boot(
    campus: TestCampus, machine: Machine, tmp_path: Path
) -> None:
    systemctl = tmp_path / "bin" / "systemctl"
    systemctl.parent.mkdir()
    systemctl.write_text("#!/bin/sh\necho stopping\nexit 1\n")
    systemctl.chmod(0o755)
    machine.boot(INVOCATION_ID="1", PATH=f"{systemctl.parent}:{os.environ['PATH']}")
    job = await running(campus, machine)
    machine.signal_agent(signal.SIGTERM)
    assert machine.agent is not None
    assert await asyncio.to_thread(machine.agent.wait, 60) == 0
    assert machine.living_guests() == []
    [run] = campus.runs(job)
    assert run.end_reason is EndReason.SAVED, campus.story
    machine.boot()
    await eventually(lambda: len(campus.runs(job)) == 2, "the job goes on where the machine is back")
    await eventually(lambda: b"resuming" in campus.logs.get("job-1-e2", b""), "from what was saved")


async def test_a_second_agent_on_the_same_state_is_refused_in_words(
    campus: TestCampus, machine: Machine
) -> None:
    machine.boot()
    await machine.listening()
    second = subprocess.run(
        [sys.executable, "-m", "gpunion.agent", "--state-dir", str(machine.state_dir)],
        capture_output=True,
        text=True,
    )
    assert second.returncode == 2
    assert "another agent" in second.stderr
    assert "Traceback" not in second.stderr


async def test_the_kill_works_while_the_agent_is_stopped(campus: TestCampus, machine: Machine) -> None:
    machine.boot()
    job = await running(campus, machine)
    machine.signal_agent(signal.SIGSTOP)
    receipt = await asyncio.to_thread(kill_all, machine.state_dir)
    assert receipt.ended == ["job-1-e1"]
    assert receipt.complete
    assert machine.living_guests() == []
    machine.signal_agent(signal.SIGCONT)
    await eventually(lambda: machine.status()["killed"], "the agent hears of it")
    await eventually(
        lambda: campus.runs(job)[0].end_reason is EndReason.KILLED_BY_OWNER, "the campus hears of it"
    )
    await machine.owner("resume")
    await eventually(lambda: len(campus.runs(job)) == 2, "shared again, the job comes back")
    await eventually(
        lambda: b"resuming" in campus.logs.get("job-1-e2", b""), "it goes on from its checkpoint"
    )


async def test_a_reclaimed_guest_is_saved_and_goes_on_elsewhere_with_nothing_lost(
    campus: TestCampus, machine: Machine, other_machine: Machine
) -> None:
    machine.boot()
    job = await running(campus, machine)
    await other_machine.join()
    other_machine.boot()
    await other_machine.listening()
    await machine.owner("reclaim", notice_s=NOTICE_S)
    await eventually(lambda: machine.status()["tenure"] == "reclaimed", "the machine is the owner's")
    await eventually(lambda: other_machine.living_guests() == ["job-1-e2"], "the job goes on elsewhere")
    await eventually(
        lambda: len(campus.runs(job)) == 2 and campus.runs(job)[1].started_s, "it is known there"
    )
    first, second = campus.runs(job)
    assert first.end_reason is EndReason.SAVED
    assert second.resumed_step == first.last_step > 0
    assert machine.living_guests() == []


async def test_without_a_coordinator_pause_reclaim_and_kill_work_as_ever(
    campus: TestCampus, machine: Machine
) -> None:
    machine.boot()
    job = await running(campus, machine)
    await campus.stop()
    assert "No new guests" in await machine.owner("pause")
    assert machine.living_guests() == ["job-1-e1"]
    assert machine.status()["tenure"] == "paused"
    assert "yours in" in await machine.owner("reclaim", notice_s=NOTICE_S)
    await eventually(
        lambda: machine.status()["tenure"] == "reclaimed", "saved by itself, well before the deadline"
    )
    assert machine.living_guests() == []
    assert "shared again" in await machine.owner("resume")
    assert "None comes until" in await machine.owner("kill")  # a keeper may still be tidying up
    assert machine.status()["killed"]
    await campus.start()
    await machine.owner("resume")
    await eventually(
        lambda: len(campus.runs(job)) == 2 and campus.runs(job)[1].started_s, "the job comes back"
    )
    first, second = campus.runs(job)
    assert first.end_reason is EndReason.SAVED, campus.story
    assert second.resumed_step == first.last_step


async def test_the_owners_kill_through_the_agent_needs_no_coordinator(
    campus: TestCampus, machine: Machine
) -> None:
    machine.boot()
    await running(campus, machine)
    await campus.stop()
    assert "Ended 1 guest" in await machine.owner("kill")
    assert machine.living_guests() == []
    await eventually(lambda: not machine.status()["guests"], "the agent knows that it is gone")


async def test_a_deadline_is_kept_with_the_agent_stopped_and_the_coordinator_gone(
    campus: TestCampus, machine: Machine
) -> None:
    machine.boot()
    await machine.listening()
    campus.submit("job-1", DEAF, STEPS=FOREVER)
    await eventually(lambda: b"deaf" in campus.logs.get("job-1-e1", b""), "the program runs")
    await campus.stop()
    await machine.owner("reclaim", notice_s=3)
    machine.signal_agent(signal.SIGSTOP)
    await eventually(lambda: machine.living_guests() == [], "the keeper ends the guest at the deadline")
    machine.signal_agent(signal.SIGCONT)
    await eventually(lambda: machine.status()["tenure"] == "reclaimed", "the agent settles it")


@SHORT_LEASE
async def test_guests_end_by_themselves_when_the_coordinator_stays_away(
    campus: TestCampus, machine: Machine
) -> None:
    machine.boot()
    job = await running(campus, machine)
    await campus.stop()
    await eventually(lambda: machine.living_guests() == [], "the lease is over")
    await campus.start()
    await eventually(lambda: len(campus.runs(job)) == 2 and campus.runs(job)[1].started_s, "it comes back")
    first, second = campus.runs(job)
    assert second.resumed_step == first.last_step or second.resumed_step >= campus.step(job) - 1


async def test_a_stopped_job_is_asked_to_go(campus: TestCampus, machine: Machine) -> None:
    machine.boot()
    job = await running(campus, machine)
    campus.stop_job(job)
    await eventually(lambda: campus.job(job).phase is JobPhase.CANCELLED, "the job is cancelled")
    await eventually(lambda: machine.living_guests() == [], "its guest is gone")


async def test_a_program_whose_words_make_no_sense_is_a_guest_like_others(
    campus: TestCampus, machine: Machine
) -> None:
    machine.boot()
    job = campus.submit("job-1", ODD)
    await eventually(lambda: campus.logs.get("job-1-e1", b"").count(b"said") > 5, "it has said it all")
    await machine.listening()  # the same agent as ever
    assert campus.job(job).phase is JobPhase.RUNNING, campus.story
    campus.stop_job(job)
    await eventually(lambda: campus.job(job).phase is JobPhase.CANCELLED, "it is stopped")
    assert machine.living_guests() == []


async def test_an_owner_who_leaves_finds_nothing_of_us(campus: TestCampus, machine: Machine) -> None:
    machine.boot()
    await running(campus, machine)
    await machine.owner("leave", notice_s=20)
    assert machine.agent is not None
    await eventually(lambda: machine.agent is not None and machine.agent.poll() is not None, "the agent ends")
    assert machine.agent.returncode == 0
    left = sorted(path.name for path in machine.state_dir.iterdir())
    assert left == ["agent.lock", "farewell.json"]  # what `gpunion leave --purge` reads and then removes
    assert campus.station.engine.state.nodes[NodeId("a1")].phase is NodePhase.LEFT


async def test_a_damaged_memory_ends_guests_and_waits_for_the_owner(
    campus: TestCampus, machine: Machine
) -> None:
    machine.boot()
    await running(campus, machine)
    machine.crash()
    state = machine.state_dir / "agent" / "state.json"
    state.write_text(state.read_text()[:-40])
    machine.boot()
    await machine.listening()
    assert machine.status()["tenure"] == "paused"
    await eventually(lambda: machine.living_guests() == [], "the stranger is ended")
    await eventually(lambda: not list((machine.state_dir / "guests").iterdir()), "and removed")
    assert list(state.parent.glob("state.json.unreadable-*"))
    assert "memory was damaged" in machine.log.read_text()


async def test_an_agent_that_crashes_again_and_again_costs_the_job_nothing(
    campus: TestCampus, machine: Machine, tmp_path: Path
) -> None:
    """At any moment: while it fetches, saves, ships or buries. The result is that of an undisturbed run."""
    steps = 250
    moments = random.Random(7)
    machine.boot()
    job = campus.submit("job-1", TRAIN, every_s=0.1, STEPS=str(steps))
    while not campus.job(job).phase.over:
        await asyncio.sleep(moments.uniform(0.2, 1.5))
        machine.crash()
        machine.boot()
        await machine.listening()
    assert campus.job(job).phase is JobPhase.SUCCEEDED, campus.story
    vault = DirectoryVault(machine.vault)
    restore_directory(vault, vault.get(job, str(campus.job(job).output)), tmp_path / "output")
    assert (tmp_path / "output" / "total").read_text() == str(sum(range(steps)))
    await eventually(
        lambda: not list((machine.state_dir / "guests").iterdir()), "nothing is left of the guest"
    )


async def test_terms_that_change_count_at_once_for_who_is_here_and_after_a_restart(
    campus: TestCampus, machine: Machine
) -> None:
    machine.boot()
    job = await running(campus, machine)
    who = campus.job(job).spec.owner
    said = await machine.owner("terms", set={"deny.people": who, "notice": "50s"})
    assert said == f"In force from now on: notice=50s; deny.people={who}."
    await eventually(lambda: machine.living_guests() == [], "the guest that is not welcome has gone")
    await eventually(lambda: campus.runs(job)[0].end_reason is EndReason.SAVED, "with what it did")
    assert machine.status()["tenure"] == "sharing"
    node = campus.station.engine.state.nodes[NodeId(machine.name)]
    assert node.facts.terms.deny_people == (who,)
    await campus.stop()
    machine.crash()
    machine.boot()
    await machine.listening()
    assert machine.status()["terms"]["values"]["notice"] == "50s"
    assert "as they were" in await machine.owner("terms", set={"notice": "50s"})
