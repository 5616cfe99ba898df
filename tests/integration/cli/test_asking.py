"""Guests and operators against a real coordinator without machines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.program import Program

pytestmark = pytest.mark.xdist_group("cli-asking")


def test_a_job_on_a_campus_without_machines_waits_and_says_why(gpunion: Program, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')")
    made = gpunion("submit", "--name", "waiter", "--", "python", "train.py", here=tmp_path)
    assert made.code == 0, made.err
    assert "waiting: no machine is part of this campus now" in made.out
    why = gpunion("why", "waiter")
    assert why.code == 0
    assert "is pending" in why.out
    assert "Next: gpunion join" in why.out
    told = gpunion("why", "waiter", "--json").json()
    assert (told["phase"], told["verdicts"]) == ("pending", [])
    assert [line["code"] for line in told["story"]] == ["submitted", "waiting"]


def test_a_job_is_found_by_the_end_of_its_id_and_stopped_once(gpunion: Program) -> None:
    job_id = gpunion("submit", "-q", "--name", "short-lived", "--no-dir", "--", "true").out.strip()
    listed = gpunion("ps", "--json").json()["jobs"]
    assert job_id in [job["id"] for job in listed]
    assert job_id[-8:] in gpunion("ps").out
    stopped = gpunion("stop", job_id[-8:])
    assert stopped.code == 0
    assert "is cancelled" in stopped.out
    again = gpunion("stop", job_id)
    assert again.code == 5
    assert "already cancelled" in again.err
    assert job_id not in gpunion("ps", "--json").out
    assert job_id in gpunion("ps", "-a", "--json").out


def test_a_job_file_is_submitted_with_its_directory(gpunion: Program, tmp_path: Path) -> None:
    (tmp_path / "gpunion.toml").write_text(
        'name = "filed"\ncommand = "python train.py"\nexpect = "1h"\n[resources]\ngpus = 2\nvram = "20GB"\n'
    )
    made = gpunion("submit", "--json", here=tmp_path)
    assert made.code == 0, made.err
    job = made.json()["job"]
    assert (job["name"], job["resources"]["vram_bytes"]) == ("filed", 20 * 10**9)
    assert job["bundle"]
    (tmp_path / "gpunion.toml").write_text('comand = "x"\n')
    wrong = gpunion("submit", here=tmp_path)
    assert wrong.code == 2
    assert "did you mean command?" in wrong.err


def test_what_the_coordinator_refuses_is_told_with_its_reason(gpunion: Program) -> None:
    refused = gpunion("submit", "--no-dir", "--env", "GPUNION_JOB_ID=1", "--", "true")
    assert refused.code == 2
    assert "GPUNION_JOB_ID is set by the agent" in refused.err
    too_many = gpunion("submit", "--no-dir", "--gpus", "65", "--", "true")
    assert too_many.code == 2
    assert "resources.gpus: it is too much: at most 64" in too_many.err


def test_a_wrong_token_is_denied_and_the_way_to_a_right_one_is_named(gpunion: Program) -> None:
    denied = gpunion("ps", "--url", gpunion.url(), "--token", "wrong")
    assert denied.code == 4
    assert "Next: gpunion login" in denied.err
    assert denied.out == ""
    login = gpunion("login", gpunion.url(), "--token", "wrong")
    assert login.code == 4
    doctor = gpunion("doctor", "--json", "--token", "wrong")
    assert doctor.code == 1
    states = {finding["check"]: finding["state"] for finding in doctor.json()["findings"]}
    assert (states["coordinator"], states["token"]) == ("ok", "missing")


def test_nobody_at_the_address_is_unavailable(gpunion: Program) -> None:
    for words in (["ps"], ["submit", "--no-dir", "--", "true"]):
        unreachable = gpunion(words[0], "--url", "http://127.0.0.1:9", "--token", "t", *words[1:])
        assert unreachable.code == 6
        assert "http://127.0.0.1:9 cannot be reached" in unreachable.err


def test_login_makes_the_address_known_from_then_on(gpunion: Program, tmp_path: Path) -> None:
    token = (gpunion.data / "admin.token").read_text().strip()
    elsewhere: dict[str, Any] = {
        "HOME": str(tmp_path),
        "GPUNION_COORDINATOR_DATA_DIR": str(tmp_path / "none"),
    }
    assert gpunion("ps", **elsewhere).code == 6
    kept = gpunion("login", gpunion.url(), "--token", token, **elsewhere)
    assert kept.code == 0, kept.err
    assert gpunion("ps", **elsewhere).code == 0
    assert (tmp_path / ".config" / "gpunion" / "client.toml").stat().st_mode & 0o777 == 0o600


def test_a_join_token_that_is_wrong_lets_nobody_in(gpunion: Program, tmp_path: Path) -> None:
    refused = gpunion("join", gpunion.url(), "--token", "wrong", "--state-dir", str(tmp_path / "state"))
    assert refused.code == 4
    assert "did not let this machine in" in refused.err
    assert not (tmp_path / "state" / "agent.toml").exists()


def test_a_second_coordinator_on_the_same_data_is_refused(gpunion: Program) -> None:
    second = gpunion("coordinator", "--data", str(gpunion.data), "--listen", "127.0.0.1:0")
    assert second.code == 1
    assert second.err.startswith("Error: the coordinator cannot start\nWhy: another coordinator")
    assert "\nNext: stop it first" in second.err


def test_output_that_is_cut_off_is_no_error(gpunion: Program) -> None:
    piped = subprocess.run(
        ["sh", "-c", '"$0" -m gpunion ps -a --json | head -c 1', sys.executable],
        env=gpunion.surroundings({}),
        capture_output=True,
        text=True,
    )
    assert piped.stderr == ""


def test_a_runtime_that_does_not_work_is_named_before_the_token_is_spent(gpunion: Program) -> None:
    token = gpunion("coordinator", "token", "-q").out.strip()
    words = [
        "join",
        gpunion.url(),
        "--token",
        token,
        "--name",
        "tried",
        "--state-dir",
        str(gpunion.home / "tried"),
    ]
    refused = gpunion(*words, "--runtime", "docker", DOCKER_HOST="unix:///nowhere/docker.sock")
    assert refused.code == 1
    assert "guests cannot be run here: docker" in refused.err
    assert "Next: " in refused.err
    assert not (gpunion.home / "tried").exists()
    joined = gpunion(*words, "--runtime", "sandbox", "--allow-unsandboxed", "--json")
    assert joined.code == 0, joined.err
    # Where it joined with another directory than the usual one, what to type next names it.
    assert f"gpunion agent --state-dir {gpunion.home / 'tried'}" in json.loads(joined.out)["next_step"]
