"""A container's limits with the agent dead or stopped, and the container with its keeper dead."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpunion.owner_kill.guest import read_keeper
from gpunion.ports.runtime import ExitReason, RuntimeFault
from tests.integration.containers.conftest import OPENERS, Host
from tests.real_machine import command_lines, eventually, processes_with


def test_a_lease_ends_a_container_whose_agent_was_killed(host: Host) -> None:
    host.agent("sleep", "100000", lease_s=1.0).kill()
    assert host.ended() == (ExitReason.LEASE_ENDED, 137)
    eventually(lambda: not host.has_container())


def test_a_lease_ends_a_container_whose_agent_is_stopped(host: Host) -> None:
    os.kill(host.agent("sleep", "100000", lease_s=1.0).pid, signal.SIGSTOP)
    assert host.ended() == (ExitReason.LEASE_ENDED, 137)


def test_a_restarted_agent_adopts_the_container_of_a_killed_one(host: Host) -> None:
    agent = host.agent("sleep", "100000")
    agent.kill()
    agent.wait()
    (guest,) = asyncio.run(OPENERS[host.engine](host.state_dir).guests())
    assert guest.alive
    asyncio.run(host.runtime.kill(guest.run_id, ExitReason.STOPPED))
    assert host.ended() == (ExitReason.STOPPED, 137)


def test_a_container_dies_with_its_keeper_and_counts_as_lost(host: Host) -> None:
    token = str(host.state_dir)
    keeper = read_keeper(str(host.start("sh", "-c", "sleep 100000 & wait", token)))
    assert keeper is not None
    assert processes_with(token) != []
    os.kill(keeper.pid, signal.SIGKILL)
    eventually(lambda: processes_with(token) == [])
    assert host.ended() == (ExitReason.LOST, 137)
    eventually(lambda: not host.has_container())


def test_the_owners_kill_ends_a_container_while_agent_and_keeper_are_stopped(host: Host) -> None:
    token = str(host.state_dir)
    os.kill(host.agent("sh", "-c", "sleep 100000 & wait", token).pid, signal.SIGSTOP)
    keeper = read_keeper(str(host.root))
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGSTOP)
    command = [sys.executable, "-m", "gpunion.owner_kill", "--state-dir", token]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout
    assert "Ended 1 guest" in answer.stdout
    assert [pid for pid in processes_with(token) if pid not in {host.children[0].pid}] == []
    assert host.ended() == (ExitReason.KILLED_BY_OWNER, 137)


def test_a_keeper_launched_before_the_owners_kill_runs_nothing_after_it(host: Host) -> None:
    spec = host.guest("sh", "-c", 'touch "$GPUNION_OUTPUT_DIR/ran"')
    paths = asyncio.run(host.runtime.prepare(spec))
    kill_file = paths.root / "kill.json"
    kill_file.write_text('{"reason": "killed_by_owner"}')  # noted when the runtime has already looked
    asyncio.run(host.runtime.start(spec))
    assert host.ended() == (ExitReason.KILLED_BY_OWNER, None)
    assert not (paths.output_dir / "ran").exists()


def test_a_removed_guest_leaves_nothing_in_the_engine(host: Host) -> None:
    host.start("sh", "-c", "exit 0")
    host.ended()
    asyncio.run(host.runtime.remove("job-1-e1"))
    assert not host.has_container()
    assert not host.root.exists()


def test_an_image_that_is_not_here_is_named_with_what_to_do(host: Host, tmp_path: Path) -> None:
    runtime = OPENERS[host.engine](tmp_path / "other", image="localhost/no/such:1")
    with pytest.raises(RuntimeFault, match=r"localhost/no/such:1 is not on this machine. Next: ") as fault:
        asyncio.run(runtime.start(host.guest("true")))
    assert not fault.value.temporary


def test_a_guests_variables_are_in_no_command_line_whatever_is_in_them(host: Host) -> None:
    asked = {
        "PLAIN": "it's a secret",
        "LINES": "one\ntwo $HOME `id`",
        "odd.name": "a=b",
        "LD_PRELOAD": "/none",
    }
    program = (
        "import os, time, json\n"
        "out = os.environ['GPUNION_OUTPUT_DIR']\n"
        "open(out + '/part', 'w').write(json.dumps(dict(os.environ)))\n"
        "os.rename(out + '/part', out + '/env'); time.sleep(100000)"
    )
    root = host.start("python", "-c", program, environment=asked)
    eventually((root / "output" / "env").exists)
    told = json.loads((root / "output" / "env").read_text())
    assert {name: told[name] for name in asked} == asked
    assert not any(b"it's a secret" in line for line in command_lines().values())
