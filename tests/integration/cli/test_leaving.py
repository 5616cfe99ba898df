"""`gpunion leave --purge`: the receipt says what is gone, and it is."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.program import LIMIT_S, Program
from tests.real_machine import command_lines

pytestmark = [pytest.mark.requires("bwrap"), pytest.mark.xdist_group("cli-leaving")]


@pytest.fixture
def lending(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path)
    try:
        program.start_coordinator()
        token = program("coordinator", "token", "-q").out.strip()
        words = ["--token", token, "--name", "alpha", "--gpu", "TEST:8GB", "--runtime", "auto"]
        joined = program("join", program.url(), *words, "--json")
        assert joined.code == 0, joined.err
        program.start_agent()
        yield program
    finally:
        program.close()


def a_guest(program: Program, token: str) -> None:
    script = f"import time; token = {token!r}; time.sleep(100000)"
    words = ["--no-dir", "--cpus", "0.1", "--memory", "64MiB", "--", "python", "-c", script]
    assert program("submit", *words).code == 0
    program.wait_for(lambda: processes_with(token), "the guest runs")


def processes_with(text: str) -> list[int]:
    return [pid for pid, line in command_lines().items() if text.encode() in line]


def traces_of(program: Program, token: str) -> list[str]:
    """What a suspicious owner would look for: files, processes, mounts, cgroups."""
    found = [str(program.state)] if program.state.exists() else []
    found += [f"process {pid}" for pid in [*processes_with(token), *processes_with(str(program.state))]]
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    found += [line for line in mounts if str(program.state) in line]
    return found


def cgroup_of(program: Program) -> str:
    keeper = next((program.state / "guests").glob("*/keeper.json"))
    return str(json.loads(keeper.read_text())["cgroup"])


def test_leaving_gives_notice_says_goodbye_and_leaves_nothing(lending: Program) -> None:
    token = f"stay-{os.getpid()}-{lending.home.name}"
    a_guest(lending, token)
    cgroup = cgroup_of(lending)
    done = lending("leave", "--purge", "--notice", "1s", "--json")
    assert done.code == 0, done.out + done.err
    receipt = done.json()
    assert receipt["left_behind"] == []
    assert receipt["coordinator_told"]
    assert len(receipt["removed"]["guests"]) == 1
    assert receipt["removed"]["processes"]
    assert str(lending.state / "agent.toml") in receipt["removed"]["files"]
    assert [cgroup] == receipt["removed"]["cgroups"] or not cgroup
    assert not os.path.exists(cgroup)
    assert traces_of(lending, token) == []
    nodes = {node["id"]: node["phase"] for node in lending("nodes", "--json").json()["nodes"]}
    assert nodes.get("alpha", "left") == "left"


def test_an_agent_that_is_dead_is_said_goodbye_for(lending: Program) -> None:
    def phases() -> list[str]:
        return [node["phase"] for node in lending("nodes", "--json").json()["nodes"]]

    lending.wait_for(lambda: phases() == ["sharing"], "the coordinator knows the machine")
    agent = lending.running[-1]
    agent.send_signal(signal.SIGKILL)
    agent.wait(LIMIT_S)
    done = lending("leave", "--purge", "--json")
    assert done.code == 0, done.out + done.err
    assert done.json()["coordinator_told"]
    assert phases() == ["left"]


def test_with_agent_and_coordinator_gone_nothing_is_left_either_and_it_says_whom_to_tell(
    lending: Program,
) -> None:
    token = f"stay-{os.getpid()}-{lending.home.name}"
    a_guest(lending, token)
    cgroup = cgroup_of(lending)
    for process in lending.running:
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT_S)
    (lending.state / "notes of the owner.txt").write_text("mine")
    done = lending("leave", "--purge")
    assert done.code == 1
    assert "notes of the owner.txt: it is not ours\nNext: keep it, or remove it yourself" in done.out
    assert "could not be told" in done.out
    assert "gpunion nodes rm alpha" in done.out
    assert [path.name for path in lending.state.iterdir()] == ["notes of the owner.txt"]
    (lending.state / "notes of the owner.txt").unlink()
    lending.state.rmdir()
    assert not os.path.exists(cgroup)
    assert traces_of(lending, token) == []
