"""Whole guests, dumped by CRIU and brought back under another state directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.podman.confinement_check import not_confined
from gpunion.adapters.runtimes.podman.probing import PROBE_DIR
from gpunion.adapters.runtimes.podman.runtime import open_podman
from gpunion.owner_kill import kill_all
from gpunion.owner_kill.guest import read_keeper
from gpunion.owner_kill.processes import cgroup_pids
from gpunion.ports.checkpointer import DumpRefused, RestoreRefused
from gpunion.ports.runtime import ExitReason
from tests.integration.whole.conftest import Machine, carry, counted
from tests.real_machine import eventually

pytestmark = [pytest.mark.requires("podman"), pytest.mark.requires("criu")]

Machines = tuple[Machine, Machine]


def test_an_unmodified_guest_goes_on_elsewhere_where_it_was(machines: Machines, tmp_path: Path) -> None:
    here, there = machines
    before = here.start()
    here.dump(tmp_path / "dump")
    reached = counted(before)
    spec = there.guest(2)
    after = there.prepared(spec)
    carry(before, after)
    here.do(here.runtime.kill("job-1-e1", ExitReason.STOPPED))
    there.do(there.runtime.restore(spec, tmp_path / "dump"))
    eventually(lambda: len(counted(after)) > len(reached))
    went_on = counted(after)
    assert went_on == list(range(1, len(went_on) + 1))
    eventually(lambda: "at" in after.log_file.read_text(encoding="utf-8"))
    keeper = read_keeper(str(after.root))
    assert keeper is not None
    pids = cgroup_pids(keeper.cgroup)
    assert pids
    assert not_confined(pids, after.output_dir.stat().st_uid) == ""
    there.do(there.runtime.limit(spec.run_id, 0.0, None))
    assert there.do(there.runtime.wait_exit(spec.run_id)).exit_reason is ExitReason.LEASE_ENDED


def test_a_guest_goes_on_after_a_dump_in_time_and_after_one_that_was_not(
    machines: Machines, tmp_path: Path
) -> None:
    here, _ = machines
    paths = here.start()
    with pytest.raises(DumpRefused, match="too long"):
        here.dump(tmp_path / "late", limit_s=0.1)
    assert not (tmp_path / "late").exists()
    reached = len(counted(paths))
    eventually(lambda: len(counted(paths)) > reached)
    here.dump(tmp_path / "dump")
    reached = len(counted(paths))
    here.do(here.runtime.release("job-1-e1"))
    eventually(lambda: len(counted(paths)) > reached)
    went_on = counted(paths)
    assert went_on == list(range(1, len(went_on) + 1))


def test_a_frozen_guest_is_woken_after_a_crash_and_ended_by_its_owner(
    machines: Machines, tmp_path: Path
) -> None:
    here, _ = machines
    paths = here.start()
    here.dump(tmp_path / "dump")
    reached = len(counted(paths))
    (found,) = asyncio.run(open_podman(here.state_dir).guests())  # the next agent's
    assert found.alive
    eventually(lambda: len(counted(paths)) > reached)
    here.dump(tmp_path / "again")
    kill_all(here.state_dir)
    status = here.do(here.runtime.wait_exit("job-1-e1"))
    assert status.exit_reason is ExitReason.KILLED_BY_OWNER


def test_a_damaged_dump_is_refused_and_nothing_of_it_runs(machines: Machines, tmp_path: Path) -> None:
    here, there = machines
    before = here.start()
    here.dump(tmp_path / "dump")
    spec = there.guest(2)
    after = there.prepared(spec)
    carry(before, after)
    (tmp_path / "dump" / "images" / "pstree.img").write_bytes(b"rubbish")
    with pytest.raises(RestoreRefused, match="CRIU"):
        there.do(there.runtime.restore(spec, tmp_path / "dump"))
    status = there.do(there.runtime.status(spec.run_id))
    assert not status.alive
    assert status.exit_reason is ExitReason.NOT_STARTED


def test_this_machine_finds_out_by_itself_and_remembers(machines: Machines, tmp_path: Path) -> None:
    here, there = machines
    here.runtime.remembers_in = there.runtime.remembers_in = tmp_path
    ability = here.do(here.runtime.ability())
    assert ability.able, ability.why_not
    assert there.do(there.runtime.ability()) == ability
    assert not (there.state_dir / PROBE_DIR).exists()
    assert here.do(here.runtime.guests()) == ()
