"""The keeper with its agent stopped or dead, and the guest with its keeper dead."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.sandbox.runtime import SandboxRuntime
from gpunion.owner_kill.guest import lives, members, read_keeper
from gpunion.ports.runtime import ExitReason, RuntimeFault
from tests.integration.sandbox.conftest import Host
from tests.real_machine import eventually, processes_with


def exit_reason(root: Path) -> str:
    return str(json.loads((root / "exit.json").read_text())["reason"])


def test_without_bubblewrap_guests_are_refused_unless_the_owner_allows_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFault, match="guests could touch this machine") as fault:
        SandboxRuntime(tmp_path, use_bubblewrap=False)
    assert not fault.value.temporary
    assert "gpunion join --allow-unsandboxed" in str(fault.value)  # also for who has no settings yet
    allowed = SandboxRuntime(tmp_path, use_bubblewrap=False, allow_unsandboxed=True)
    assert not allowed.sandboxed
    assert "unsandboxed process" in allowed.describe()


def test_a_lease_ends_a_guest_whose_agent_was_killed(host: Host) -> None:
    agent = host.agent("sleep", "100000", lease_s=1.0)
    agent.kill()
    root = host.state_dir / "guests" / "job-1-e1"
    eventually((root / "exit.json").exists)
    assert exit_reason(root) == "lease_ended"


def test_a_lease_ends_a_guest_whose_agent_is_stopped(host: Host) -> None:
    agent = host.agent("sleep", "100000", lease_s=1.0)
    os.kill(agent.pid, signal.SIGSTOP)
    root = host.state_dir / "guests" / "job-1-e1"
    eventually((root / "exit.json").exists)
    assert exit_reason(root) == "lease_ended"


def test_a_restarted_agent_adopts_the_guest_of_a_killed_one(host: Host) -> None:
    agent = host.agent("sleep", "100000")
    agent.kill()
    agent.wait()
    (guest,) = asyncio.run(host.runtime.guests())
    assert guest.alive
    ended = asyncio.run(host.runtime.kill(guest.run_id, ExitReason.STOPPED))
    assert ended is not None
    assert (ended.alive, ended.exit_reason) == (False, ExitReason.STOPPED)


@pytest.mark.parametrize("on_its_way", [":", "trap 'exit 1' TERM"])
def test_a_guest_whose_machine_is_shut_down_is_lost_and_has_not_failed(host: Host, on_its_way: str) -> None:
    root = host.start("sh", "-c", f"{on_its_way}; sleep 100000 & wait")
    keeper = read_keeper(str(root))
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGTERM)
    for pid, _ in members(str(root)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    status = asyncio.run(host.runtime.wait_exit("job-1-e1"))
    assert status.exit_reason is ExitReason.LOST


def test_a_guest_dies_with_its_keeper_and_counts_as_lost(host: Host) -> None:
    token = str(host.state_dir)
    root = host.start("sh", "-c", "sleep 100000 & wait", token)
    keeper = read_keeper(str(root))
    assert keeper is not None
    assert processes_with(token) != []
    os.kill(keeper.pid, signal.SIGKILL)
    status = asyncio.run(host.runtime.wait_exit("job-1-e1"))
    assert status.exit_reason is ExitReason.LOST
    assert processes_with(token) == []
    assert not lives(str(root))
    assert not (keeper.cgroup and Path(keeper.cgroup).exists())


def test_a_keeper_that_is_stopped_does_not_save_its_guest(host: Host) -> None:
    root = host.start("sleep", "100000")
    keeper = read_keeper(str(root))
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGSTOP)
    status = asyncio.run(host.runtime.kill("job-1-e1", ExitReason.DEADLINE))
    assert status is not None
    assert status.exit_reason is ExitReason.DEADLINE
    assert not lives(str(root))


def test_nothing_of_an_ended_guest_stays_in_the_cgroup_tree(host: Host) -> None:
    root = host.start("sleep", "100000")
    keeper = read_keeper(str(root))
    assert keeper is not None
    if not keeper.cgroup:
        pytest.skip("this system gives us no cgroup")
    assert Path(keeper.cgroup).is_dir()
    asyncio.run(host.runtime.kill("job-1-e1", ExitReason.STOPPED))
    assert not Path(keeper.cgroup).exists()


def test_a_guest_that_makes_directories_unreadable_can_still_be_removed(host: Host) -> None:
    root = host.start("sh", "-c", 'mkdir -p "$TMPDIR/a/b" && touch "$TMPDIR/a/b/c" && chmod 0 "$TMPDIR/a"')
    asyncio.run(host.runtime.wait_exit("job-1-e1"))
    asyncio.run(host.runtime.remove("job-1-e1"))
    assert not root.exists()


def test_damaged_limits_leave_the_last_ones_standing(host: Host) -> None:
    root = host.start("sleep", "100000")
    (root / "limits.json").write_text("{nonsense")
    status = asyncio.run(host.runtime.status("job-1-e1"))
    assert status is not None
    assert status.alive
