"""The commands around sessions: what they list, whom they end, and what they say to a wrong name."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from gpunion.cli.exits import CONFLICT, NOT_FOUND, OK, USAGE
from tests.trees import a_tree
from tests.unit.cli.campus_double import CampusDouble, Terminal, a_job


def a_session(**changes: Any) -> dict[str, Any]:
    session: dict[str, Any] = {
        "name": "course", "job_id": "job-1", "kind": "notebook", "user": "ada", "phase": "running",
        "where": "it runs on alpha", "node": "alpha", "level": "variables", "idle_s": 125.0,
        "ends_in_s": 475.0, "moves": 2, "here": True, "ready": True, "no_ssh": "", "ended_at": None,
        "token": "secret",
    }  # fmt: skip
    return {**session, **changes}


def test_sessions_are_listed_with_how_they_would_be_kept(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.sessions_there = [
        a_session(),
        a_session(name="waits", phase="pending", node=None, level="", idle_s=None, moves=0),
        a_session(name="old", ended_at="2026-01-01T00:00:00.000Z"),
    ]
    assert gpunion("sessions") == OK
    head, one, other = gpunion.out.splitlines()
    assert head.split() == ["NAME", "KIND", "PHASE", "WHERE", "KEPT", "AS", "IDLE", "MOVES", "USER"]
    assert one.split()[:5] == ["course", "notebook", "running", "alpha", "variables"]
    assert "2 min 5 s, ends in 7 min 55 s" in one
    assert other.split() == ["waits", "notebook", "pending", "-", "-", "-", "0", "ada"]
    assert gpunion("sessions", "-a") == OK
    assert "old" in gpunion.out


def test_where_there_are_none_it_says_how_to_begin_one(gpunion: Terminal) -> None:
    assert gpunion("sessions") == OK
    assert "gpunion notebook" in gpunion.out


def test_a_session_is_ended_by_name_and_its_token_is_not_shown(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    campus.sessions_there = [a_session()]
    assert gpunion("sessions", "end", "course") == OK
    assert "gpunion sync course" in gpunion.out
    assert gpunion("sessions", "end", "course", "--json") == OK
    assert "secret" not in gpunion.out
    assert campus.ended_sessions == ["job-1", "job-1"]


@pytest.mark.parametrize("words", [("sessions", "end", "nobodys"), ("sync", "nobodys"), ("ssh", "nobodys")])
def test_a_session_nobody_knows_is_not_found(gpunion: Terminal, words: tuple[str, ...]) -> None:
    gpunion.environment |= {"GPUNION_URL": "http://campus.example", "GPUNION_TOKEN": "token"}
    assert gpunion(*words) == NOT_FOUND
    assert "gpunion sessions" in gpunion.err


@pytest.mark.parametrize(
    "words", [("notebook", "--name", "a/b"), ("notebook", "--name", "A B"), ("ssh", "a/b")]
)
def test_a_name_that_no_address_can_have_is_refused(gpunion: Terminal, words: tuple[str, ...]) -> None:
    gpunion.environment |= {"GPUNION_URL": "http://campus.example", "GPUNION_TOKEN": "token"}
    assert gpunion(*words) == USAGE
    assert "small letters, digits and dashes" in gpunion.err
    assert "bug" not in gpunion.err


class Ending(CampusDouble):
    """Whose session is over once it was looked at."""

    def session(self, name: str) -> dict[str, Any]:
        return self.sessions_there.pop(0) if len(self.sessions_there) > 1 else super().session(name)


@pytest.mark.parametrize(("phase", "code"), [("failed", 3), ("succeeded", OK)])
def test_a_notebook_that_fails_says_what_it_printed_last_and_ends_with_its_code(
    tmp_path: Path, phase: str, code: int
) -> None:
    campus = Ending()
    gpunion = Terminal(campus, tmp_path)
    over = "2026-01-01T00:00:00.000Z"
    gpunion.environment |= {"GPUNION_URL": "http://campus.example", "GPUNION_TOKEN": "token"}
    job = a_job(1, phase=phase, ended_at=over, exit_code=code)
    campus.known, campus.texts = {job["id"]: job}, {job["id"]: "line\n" * 50 + "gpunion: there is no jupyter"}
    ended = a_session(job_id=job["id"], phase=phase, ended_at=over)
    campus.sessions_there = [a_session(job_id=job["id"]), ended]
    assert gpunion("notebook", "--name", "course", "--no-browser", "--port", str(a_free_port())) == code
    assert f"Session course is over ({phase})" in gpunion.err
    assert ("  gpunion: there is no jupyter\n" in gpunion.err) == (phase == "failed")
    assert gpunion.err.count("  line\n") == (19 if phase == "failed" else 0)


def test_a_port_that_is_taken_is_said_before_a_session_begins(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    gpunion.environment |= {"GPUNION_URL": "http://campus.example", "GPUNION_TOKEN": "token"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert gpunion("notebook", "--no-dir", "--name", "course", "--port", port) == CONFLICT
    assert f"port {port} of this machine cannot be listened at" in gpunion.err
    assert "Nothing was begun; choose another: --port PORT" in gpunion.err
    assert campus.submitted == []


def a_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize("port", ["99999", "65536", "0", "-1", "1e3", "9" * 30])
def test_a_port_that_is_none_is_refused_in_words(gpunion: Terminal, port: str) -> None:
    gpunion.environment |= {"GPUNION_URL": "http://campus.example", "GPUNION_TOKEN": "token"}
    assert gpunion("notebook", "course", f"--port={port}") == USAGE
    assert "65535" in gpunion.err
    assert "bug" not in gpunion.err


def test_of_what_was_saved_nothing_comes_that_would_be_run_or_trusted_here(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    job = a_job(1, phase="succeeded", ended_at="2026-01-01T00:00:00.000Z", output="c")
    campus.known[job["id"]] = job
    campus.sessions_there = [a_session(job_id=job["id"], here=False, ended_at=job["ended_at"])]
    campus.made = a_tree({".git/hooks/post-checkout": b"#!/x", "work.ipynb": b"{}"})
    assert gpunion("sync", "course") == OK
    assert (gpunion.here / "work.ipynb").read_bytes() == b"{}"
    assert not (gpunion.here / ".git").exists()
    assert ".git/hooks/post-checkout" in gpunion.err
