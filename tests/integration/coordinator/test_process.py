"""The coordinator as a process: starting, ending, dying, starting again, and who may not start."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from gpunion.adapters.sql import tables
from gpunion.adapters.sql.seals import seal_of
from gpunion.domain.protocol.frames import OrderFrame
from gpunion.sdk.errors import ApiProblem, Unreachable
from tests.integration.coordinator.process import START_LIMIT_S, Coordinator, a_job
from tests.real_machine import open_files


def refused(coordinator: Coordinator, *arguments: str, **environment: str) -> tuple[int, list[str]]:
    """Exit code and the lines on standard error of a start that fails."""
    process = coordinator.spawn(*arguments, **environment)
    _, err = process.communicate(timeout=START_LIMIT_S)
    return process.returncode, err.strip().splitlines()


def test_the_admin_token_is_made_once_and_kept_for_its_owner_only(coordinator: Coordinator) -> None:
    coordinator.start()
    token = coordinator.token
    with coordinator.client() as client:
        term = client.campus()["term"]
    file = coordinator.data_dir / "admin.token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(coordinator.data_dir.stat().st_mode) == 0o700
    code, out, err = coordinator.end()
    assert code == 0
    assert token in out
    assert token not in err
    assert token.encode() not in (coordinator.data_dir / "gpunion.db").read_bytes()
    coordinator.start()
    with coordinator.client() as client:
        assert client.campus()["term"] > term
    code, out, _ = coordinator.end(signal.SIGINT)
    assert (code, out) == (0, "")
    assert not (coordinator.data_dir / "address").exists()


def test_a_second_coordinator_on_the_same_database_is_told_in_one_line(coordinator: Coordinator) -> None:
    coordinator.start()
    code, lines = refused(coordinator)
    assert code == 1
    assert len(lines) == 1
    assert "another coordinator" in lines[0]
    assert "stop it first" in lines[0]
    with coordinator.client() as client:
        assert client.jobs()["jobs"] == []


def test_what_cannot_be_started_says_why_in_one_line(coordinator: Coordinator, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, lines = refused(coordinator, "--port", str(taken.getsockname()[1]))
        assert code == 1
        assert len(lines) == 1
        assert "cannot listen on 127.0.0.1" in lines[0]
    blocked = Coordinator(tmp_path / "file")
    blocked.data_dir.write_text("not a folder")
    code, lines = refused(blocked)
    assert (code, len(lines)) == (1, 1)
    broken = Coordinator(tmp_path / "broken")
    broken.data_dir.mkdir()
    (broken.data_dir / "gpunion.db").write_bytes(b"no database " * 100)
    code, lines = refused(broken)
    assert (code, len(lines)) == (65, 1)
    assert "not a database" in lines[0]


def test_a_setting_nobody_knows_is_refused_with_a_suggestion(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    code, lines = refused(coordinator, GPUNION_COORDINATOR_PROT="1")
    assert code == 2
    assert lines == ["gpunion coordinator: environment: unknown key 'prot'; did you mean 'port'?"]
    file = tmp_path / "coordinator.toml"
    file.write_text("[timing]\nleese_s = 3\n")
    code, lines = refused(coordinator, "--config", str(file))
    assert code == 2
    assert "did you mean 'lease_s'" in lines[0]
    code, lines = refused(coordinator, GPUNION_COORDINATOR_POLICIES="best")
    assert code == 2
    assert "policies is one of" in lines[0]


def test_jobs_survive_a_kill(coordinator: Coordinator) -> None:
    coordinator.start()
    with coordinator.client() as client:
        jobs = [client.submit(a_job(name=f"job {number}"))["job"] for number in range(3)]
        stopped = client.stop(jobs[0]["id"])["job"]
    coordinator.end(signal.SIGKILL)
    coordinator.start()
    with coordinator.client() as client:
        found = {job["id"]: (job["name"], job["phase"]) for job in client.all_jobs()}
        assert found == {
            jobs[0]["id"]: ("job 0", "cancelled"),
            jobs[1]["id"]: ("job 1", "pending"),
            jobs[2]["id"]: ("job 2", "pending"),
        }
        assert client.job(stopped["id"])["submitted_at"] == jobs[0]["submitted_at"]
        assert client.why(stopped["id"])["story"][0]["code"] == "submitted"


@pytest.mark.parametrize("side", ["before", "after"])
def test_dying_at_a_commit_loses_no_accepted_job_and_makes_none_twice(
    coordinator: Coordinator, side: str
) -> None:
    coordinator.start(GPUNION_CRASH_AT_COMMIT=f"1:{side}")
    with coordinator.client() as client, pytest.raises(Unreachable):
        client.submit(a_job(), idempotency_key="once")
    code, _, _ = coordinator.ended()
    assert code == -signal.SIGKILL
    coordinator.start()
    with coordinator.client() as client:
        before = [job["id"] for job in client.jobs()["jobs"]]
        assert len(before) == (0 if side == "before" else 1)
        job = client.submit(a_job(), idempotency_key="once")["job"]
        assert [found["id"] for found in client.jobs()["jobs"]] == [job["id"]]
        assert not before or before == [job["id"]]


def test_a_key_used_again_for_another_job_is_a_conflict(coordinator: Coordinator) -> None:
    coordinator.start()
    with coordinator.client() as client:
        first = client.submit(a_job(), idempotency_key="k")
        again = client.submit(a_job(), idempotency_key="k")
        assert again == first
        with pytest.raises(ApiProblem) as caught:
            client.submit(a_job(name="other"), idempotency_key="k")
        assert (caught.value.code, caught.value.status) == ("idempotency_conflict", 409)
        answers: list[dict[str, Any]] = []

        def submit() -> None:
            with coordinator.client() as another:
                answers.append(another.submit(a_job(), idempotency_key="race"))

        threads = [threading.Thread(target=submit) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({answer["job"]["id"] for answer in answers}) == 1
        assert len(client.jobs()["jobs"]) == 2


def test_a_coordinator_whose_term_is_over_exits_and_commits_nothing(coordinator: Coordinator) -> None:
    coordinator.start()
    database = sqlite3.connect(coordinator.data_dir / "gpunion.db")
    with database:
        database.execute("UPDATE leader SET term = term + 1")
    with coordinator.client() as client, pytest.raises((Unreachable, ApiProblem)):
        client.submit(a_job())
    code, _, err = coordinator.ended()
    assert code == 70
    assert "took the lead" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert database.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
    database.close()


def test_ending_does_not_wait_for_agents_and_watchers(coordinator: Coordinator) -> None:
    coordinator.start()
    with coordinator.client() as client, coordinator.node() as node:
        events = client.events(since=0, reconnect=False)
        assert next(events)["event"] == "NodeJoined"
        code, _, err = coordinator.end()
        assert code == 0
        assert "Traceback" not in err
        assert "ERROR" not in err
        del node
    events.close()


def test_one_line_is_logged_for_every_decision(coordinator: Coordinator) -> None:
    coordinator.start(GPUNION_COORDINATOR_LOG_FORMAT="json")
    with coordinator.client() as client, coordinator.node() as node:
        job = client.submit(a_job())["job"]
        node.receive_a(OrderFrame)
    _, _, err = coordinator.end()
    told = [line for line in err.splitlines() if '"event": "decision"' in line and job["id"] in line]
    assert len(told) == 1
    assert "JobSubmitted" in told[0]
    assert "placed" in told[0]


def test_a_clock_set_back_between_two_starts_does_no_harm(coordinator: Coordinator) -> None:
    coordinator.start()
    with coordinator.client() as client:
        client.submit(a_job())
    coordinator.end()
    with sqlite3.connect(coordinator.data_dir / "gpunion.db") as database:
        database.row_factory = sqlite3.Row
        leader = dict(database.execute("SELECT * FROM leader").fetchone())
        newest_s = leader["newest_s"] + 1000000
        seal = seal_of(tables.leader, {**leader, "newest_s": newest_s})
        database.execute("UPDATE leader SET newest_s = ?, seal = ?", (newest_s, seal))
    database.close()
    coordinator.start()
    with coordinator.client() as client:
        job = client.submit(a_job(name="later"))["job"]
        assert client.jobs()["jobs"][0]["id"] == job["id"]
    coordinator.end()
    with sqlite3.connect(coordinator.data_dir / "gpunion.db") as database:
        assert database.execute("SELECT max(at_s) >= ? FROM decisions", (newest_s,)).fetchone() == (1,)
    database.close()


def test_the_lock_is_not_inherited_by_what_outlives_the_coordinator(coordinator: Coordinator) -> None:
    coordinator.start()
    assert coordinator.process is not None
    pid = coordinator.process.pid
    (lock,) = [number for number, path in open_files(pid).items() if path.endswith(".lock")]
    flags = Path(f"/proc/{pid}/fdinfo/{lock}").read_text()
    assert int(flags.split("flags:")[1].split()[0], 8) & os.O_CLOEXEC
