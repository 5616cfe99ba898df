"""Guests and owners together: a coordinator, an agent and jobs, all through the command line."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.integration.cli.program import LIMIT_S, Program

# One campus serves them all, so they stay together on one worker.
pytestmark = pytest.mark.xdist_group("cli-lending")

SLEEPER = ["--no-dir", "--cpus", "0.1", "--memory", "64MiB", "--", "sleep", "600"]


def run_words(*command: str) -> list[str]:
    return ["--cpus", "0.1", "--memory", "64MiB", "--", *command]


def phase(program: Program, job: str) -> str:
    return str(program("why", job, "--json").json()["phase"])


def wait_for_phase(program: Program, job: str, wanted: str) -> None:
    program.wait_for(lambda: phase(program, job) == wanted, f"{job} is {wanted}")


def test_run_shows_what_the_program_prints_and_ends_with_its_code(lending: Program, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint('from', sys.argv[1])\nsys.exit(7)\n")
    (tmp_path / "secret.bin").write_text("x")
    (tmp_path / ".gpunionignore").write_text("*.bin\n")
    done = lending("run", "--name", "seven", *run_words("python", "train.py", "afar"), here=tmp_path)
    assert done.code == 7, done.err
    assert done.out == "from afar\n"
    assert "placed on alpha" in done.err
    assert "failed with exit code 7" in done.err
    assert lending("logs", "seven").out == "from afar\n"
    assert lending("logs", "-f", "seven").code == 7


def test_run_shows_the_end_of_what_was_printed_also_where_that_is_much(
    lending: Program, tmp_path: Path
) -> None:
    lines = "import sys\nfor number in range(110_000):\n    print(f'{number:063d}')\nsys.exit('THE END')\n"
    (tmp_path / "loud.py").write_text(lines)
    done = lending("run", "--name", "loud", *run_words("python", "loud.py"), here=tmp_path)
    assert done.code == 1, done.err
    assert len(done.out) == 110_000 * 64 + len("THE END\n")
    assert done.out.endswith(f"{109_999:063d}\nTHE END\n")
    assert "may still be on" not in done.err


def test_run_for_programs_is_a_stream_of_objects(lending: Program) -> None:
    done = lending("run", "--json", "--no-dir", *run_words("echo", "hello"))
    assert done.code == 0, done.err
    records = [json.loads(line) for line in done.out.splitlines()]
    kinds = [record["type"] for record in records]
    assert (kinds[0], kinds[-1]) == ("submitted", "ended")
    assert "".join(record["text"] for record in records if record["type"] == "output") == "hello\n"


def test_ctrl_c_leaves_the_job_running_and_says_how_to_come_back(lending: Program) -> None:
    process = lending.start("run", "--name", "left-alone", *SLEEPER)
    lending.wait_for(lambda: '"left-alone"' in lending("ps", "--json").out, "the job is handed in")
    wait_for_phase(lending, "left-alone", "running")
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 130
    told = (lending.home / "run.log").read_text()
    assert "Detached" in told
    assert "gpunion logs -f" in told
    assert phase(lending, "left-alone") == "running"
    assert lending("stop", "left-alone").code == 0
    wait_for_phase(lending, "left-alone", "cancelled")


def test_the_owner_sees_who_is_there_and_has_the_machine_back(lending: Program) -> None:
    assert lending("submit", "--name", "guest", *SLEEPER).code == 0
    wait_for_phase(lending, "guest", "running")
    seen = lending("status")
    assert seen.out.startswith("1 guest is on this machine:")
    assert "gpunion kill" in seen.out
    assert "Guests are shut in:" in seen.out
    assert "No new guests come" in lending("pause").out
    back = lending("reclaim", "--now", "--json")
    assert back.code == 0
    lending.wait_for(
        lambda: lending("status", "--json").json()["status"]["tenure"] == "reclaimed",
        "the machine is the owner's",
    )
    assert lending("status").out.startswith("No guest is on this machine.")
    wait_for_phase(lending, "guest", "migrating")  # the agent knows it before the coordinator
    why = lending("why", "guest")
    assert "is migrating" in why.out
    assert "its owner is using it" in why.out
    assert lending("resume").code == 0
    wait_for_phase(lending, "guest", "running")
    assert lending("stop", "guest").code == 0
    wait_for_phase(lending, "guest", "cancelled")


def test_kill_works_while_the_agent_stands_still(lending: Program) -> None:
    assert lending("submit", "--name", "victim", *SLEEPER).code == 0
    wait_for_phase(lending, "victim", "running")
    agent = lending("status", "--json").json()["status"]["pid"]
    os.kill(agent, signal.SIGSTOP)
    try:
        killed = lending("kill", "--json")
    finally:
        os.kill(agent, signal.SIGCONT)
    assert killed.code == 0, killed.err
    assert len(killed.json()["ended"]) == 1
    assert killed.json()["complete"] is True
    lending.wait_for(
        lambda: lending("status", "--json").json()["status"]["killed"], "the agent has heard of the kill"
    )
    assert lending("resume").code == 0
    wait_for_phase(lending, "victim", "running")
    assert lending("stop", "victim").code == 0
    wait_for_phase(lending, "victim", "cancelled")


def test_the_doctor_finds_nothing_missing_here(lending: Program) -> None:
    examined = lending("doctor", "--json")
    assert examined.code == 0, examined.out
    assert {finding["check"] for finding in examined.json()["findings"]} >= {
        "vault",
        "token",
        "clock",
        "disk",
    }


def test_a_machine_that_joined_does_not_join_again(lending: Program) -> None:
    again = lending("join", lending.url(), "--token", "x")
    assert again.code == 5
    assert "already joined" in again.err


def test_a_second_agent_is_refused(lending: Program) -> None:
    second = lending("agent")
    assert second.code == 1
    assert "another agent" in second.err


def test_an_impossible_job_says_what_every_machine_lacks(lending: Program) -> None:
    refused = lending("submit", "--no-dir", "--gpus", "9", "--", "true")
    assert refused.code == 1
    assert "alpha  no    it has 2 GPUs, 9 are needed" in refused.err


def test_leaving_removes_every_trace_of_the_machine(tmp_path: Path) -> None:
    program = Program(tmp_path)
    try:
        program.start_coordinator()
        token = program("coordinator", "token", "-q").out.strip()
        assert program("join", program.url(), "--token", token, "--allow-unsandboxed").code == 0
        agent = program.start_agent()
        assert program("leave").code == 0
        assert agent.wait(LIMIT_S) == 0
        assert not (program.state / "agent.toml").exists()
        assert program("status").code == 6
    finally:
        program.close()


def test_an_agent_with_a_dead_coordinator_still_obeys_its_owner(tmp_path: Path) -> None:
    program = Program(tmp_path)
    try:
        coordinator = program.start_coordinator()
        token = program("coordinator", "token", "-q").out.strip()
        assert program("join", program.url(), "--token", token, "--allow-unsandboxed").code == 0
        program.start_agent()
        coordinator.kill()
        coordinator.wait()
        assert program("pause").code == 0
        assert program("reclaim", "--now").code == 0
        assert "NOT connected" in program("status").out
        assert program("resume").code == 0
    finally:
        program.close()


def test_kill_needs_neither_agent_nor_coordinator(alone: Program) -> None:
    alone.state.mkdir()
    assert alone("kill").code == 0
