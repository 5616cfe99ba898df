"""What an owner types when no agent answers, and how a machine is described."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gpunion.agent.link.joining import Joined, JoinRequest
from gpunion.agent.owner import client as owner_client
from gpunion.agent.settings import settings_of
from gpunion.cli import agent_socket as owner
from gpunion.cli.checks.machine import check_agent
from gpunion.cli.commands.owner import join as join_command
from gpunion.cli.commands.owner import status as status_command
from gpunion.cli.exits import Trouble
from gpunion.cli.output.screen import Screen
from gpunion.owner_kill.processes import boot_id, start_ticks
from tests.unit.cli.campus_double import Terminal


@pytest.mark.parametrize("command", ["status", "pause", "resume", "reclaim"])
def test_without_an_agent_the_owner_hears_that_kill_still_works(gpunion: Terminal, command: str) -> None:
    gpunion.environment["GPUNION_STATE_DIR"] = str(gpunion.here)
    (gpunion.here / "agent.toml").touch()
    assert gpunion(command) == 6
    assert "The agent is not running" in gpunion.err
    assert "`gpunion kill` still works" in gpunion.err
    assert "Next: gpunion agent" in gpunion.err


def test_without_an_agent_the_owner_hears_who_is_still_here_and_for_how_long(gpunion: Terminal) -> None:
    gpunion.environment["GPUNION_STATE_DIR"] = str(gpunion.here)
    assert gpunion("status") == 6
    assert "No guest is on this machine" in gpunion.err
    guest = gpunion.here / "guests" / "job-1-e2"
    guest.mkdir(parents=True)
    ours = os.getpid()
    keeper = {"pid": ours, "start_ticks": start_ticks(ours), "boot_id": boot_id(), "cgroup": "", "mark": ""}
    (guest / "keeper.json").write_text(json.dumps(keeper))
    lease_until_s = time.clock_gettime(time.CLOCK_BOOTTIME) + 100_000
    (guest / "limits.json").write_text(json.dumps({"lease_until_s": lease_until_s, "kill_at_s": None}))
    assert gpunion("status") == 6
    assert re.search(r"1 guest is still on this machine: job-1-e2, which ends by itself in 1 d", gpunion.err)
    assert "Next: gpunion kill, to end them now; or gpunion agent" in gpunion.err
    found = check_agent(gpunion.here, systemd=False)
    assert found.found.startswith("it does not run, so no new guests come. 1 guest is still on this machine")
    assert found.mend.startswith("gpunion kill, to end them now")


def test_an_agent_that_answers_is_known_to_run_by_whoever_asks_for_its_terms() -> None:
    answer = {"message": "", "status": {"terms": {"values": {}}, "guests": []}}
    shown = owner.ask(lambda: answer)["status"]
    assert shown == {"terms": {"values": {}, "agent_runs": True}, "guests": []}
    assert owner.ask(lambda: {"message": "", "status": {"terms": None}})["status"] == {"terms": None}


def test_an_owner_is_told_what_to_do_while_an_agent_hangs(
    gpunion: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = threading.Event()

    class Heard(io.StringIO):
        def flush(self) -> None:
            told.set()

    def hangs(*_: object) -> Any:
        assert told.wait(60), "nothing was said while it hung"
        raise owner_client.AgentHangs("The agent did not answer within 20 s.")

    monkeypatch.setattr(owner, "SLOW_AFTER_S", 0.0)
    said = Heard()
    with pytest.raises(Trouble) as raised:
        owner.ask(hangs, gpunion.here, Screen(out=io.StringIO(), err=said))
    assert "`gpunion kill` ends all guests at once" in said.getvalue()
    assert raised.value.next_step.startswith("gpunion kill, to have the machine now")


def test_who_may_not_look_into_an_agent_s_folder_is_told_whose_it_is(
    gpunion: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine whose agent is root's. Tests may be root's too, who may look everywhere."""
    really_open = os.open

    def shut(path: str, *more: Any, **options: Any) -> int:
        if os.fspath(path) == str(gpunion.here):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return really_open(path, *more, **options)

    monkeypatch.setattr(os, "open", shut)
    assert gpunion("status", "--state-dir", str(gpunion.here)) == 4
    assert "belongs to another user. Next: run this as that user" in gpunion.err.replace("\n", " ")


def test_guests_that_cannot_be_looked_for_are_no_bug(
    gpunion: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody_may(state_dir: str) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), state_dir)

    monkeypatch.setattr("gpunion.owner_kill.guest.guest_dirs", nobody_may)
    (gpunion.here / "agent.toml").touch()
    assert gpunion("status", "--state-dir", str(gpunion.here)) == 6
    assert "The agent is not running" in gpunion.err


def test_who_has_left_is_not_told_to_start_an_agent(gpunion: Terminal) -> None:
    (gpunion.here / "farewell.json").touch()
    assert gpunion("status", "--state-dir", str(gpunion.here)) == 6
    assert "this machine has not joined with it, or has left" in gpunion.err
    assert "No guest is on this machine" in gpunion.err
    assert f"Next: gpunion join --state-dir {gpunion.here} URL --token TOKEN" in gpunion.err
    assert gpunion("leave", "--state-dir", str(gpunion.here)) == 5
    assert "There is nothing to leave" in gpunion.err


def test_who_wants_to_leave_needs_no_agent_for_it(gpunion: Terminal) -> None:
    (gpunion.here / "agent.toml").touch()
    assert gpunion("leave", "--state-dir", str(gpunion.here)) == 6
    assert f"Next: gpunion leave --state-dir {gpunion.here} --purge, which needs no agent" in gpunion.err


def test_leaving_in_the_wrong_place_is_no_receipt(gpunion: Terminal) -> None:
    nowhere, empty = gpunion.here / "none", gpunion.here / "empty"
    assert gpunion("leave", "--purge", "--state-dir", str(nowhere)) == 5
    assert f"Nothing was removed: there is no state directory {nowhere}" in gpunion.err
    assert "Next: name the one your agent uses with --state-dir" in gpunion.err
    empty.mkdir()
    assert gpunion("leave", "--purge", "--state-dir", str(empty)) == 0
    assert f"there was nothing of ours in {empty}" in gpunion.out
    assert "is left on this machine" not in gpunion.out


def test_a_state_directory_that_is_not_there_is_named(gpunion: Terminal) -> None:
    assert gpunion("status", "--state-dir", str(gpunion.here / "none")) == 6
    assert str(gpunion.here / "none") in gpunion.err


def test_an_agent_that_never_joined_says_how_to(gpunion: Terminal) -> None:
    assert gpunion("agent", "--state-dir", str(gpunion.here)) == 5
    assert "has not joined" in gpunion.err
    assert "Next: gpunion join" in gpunion.err


def test_what_to_type_next_names_the_directory_that_was_named(gpunion: Terminal) -> None:
    folder = gpunion.here / "my state"
    folder.mkdir()
    (folder / "agent.toml").touch()
    assert gpunion("status", "--state-dir", str(folder)) == 6
    flag = f"--state-dir '{folder}'"
    assert f"`gpunion kill {flag}` still works" in gpunion.err
    assert f"Next: gpunion agent {flag}, to start it" in gpunion.err
    assert gpunion("status", "--json", "--state-dir", str(folder)) == 6
    assert json.loads(gpunion.err)["next_step"] == f"gpunion agent {flag}, to start it."
    assert gpunion("terms", "set", "notise=1", "--state-dir", str(folder)) == 2
    assert f"Next: gpunion terms {flag}, to see the keys" in gpunion.err


def test_what_a_program_would_type_to_stop_guests_names_the_directory_too() -> None:
    screen = Screen(out=io.StringIO(), err=io.StringIO(), as_json=True)
    screen.mend = lambda text: owner.with_state_dir(text, Path("/srv/agent"))
    status = {"how_to_stop": ["gpunion reclaim --notice 60s", "gpunion kill"]}
    answer = owner.ask(lambda: {"message": "", "status": status}, screen=screen)
    assert answer["status"]["how_to_stop"] == [
        "gpunion reclaim --state-dir /srv/agent --notice 60s",
        "gpunion kill --state-dir /srv/agent",
    ]


@pytest.mark.parametrize("words", [["agent"], ["agent", "install", "--dry-run"], ["terms"]])
def test_settings_that_are_not_understood_are_named_with_the_line(
    gpunion: Terminal, words: list[str]
) -> None:
    gpunion.environment["GPUNION_STATE_DIR"] = str(gpunion.here)
    (gpunion.here / "agent.toml").write_text("coordinator = \n")
    assert gpunion(*words) == 2
    assert str(gpunion.here / "agent.toml") in gpunion.err
    assert "line 1" in gpunion.err


def test_who_has_joined_is_told_so_whatever_the_environment_says_over_its_settings(
    gpunion: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = gpunion.here / "agent.toml"

    def join(request: JoinRequest) -> Joined:
        file.write_text('coordinator = "http://x.example"\nnode_id = "a"\nvault = "vault"\n')
        return Joined(node_id="a", settings_file=file, next_step="gpunion agent")

    monkeypatch.setattr("gpunion.agent.compose.coordinator_requests.join", join)
    monkeypatch.setattr(join_command, "_runtime", lambda arguments: "sandbox")
    gpunion.environment["GPUNION_RUNTIME"] = "magic"
    words = ("join", "http://x.example", "--token", "t", "--name", "b", "--state-dir", str(gpunion.here))
    assert gpunion(*words) == 0
    assert "This machine is a of the campus" in gpunion.out
    assert "It is called so because 'b' is taken there." in gpunion.out
    assert "An agent would not start as it is: " in gpunion.out
    assert "magic" in gpunion.out
    assert gpunion(*words[:5], "A", *words[6:]) == 0
    assert "It is called so because names there have small letters." in gpunion.out
    assert "No image can run in it" not in gpunion.out
    assert gpunion(*words, "--runtime", "auto") == 0
    assert "Guests run in the sandbox, as the first that works here. No image can run in it" in gpunion.out
    assert gpunion(*words, "--gpu", "FOO9000:24GB", "--gpu", "RTX4O90:24GB", "--gpu", "A100:40GB") == 0
    assert "FOO9000 is no model that is known. It counts as fast as an A100" in gpunion.out
    assert "RTX4O90 is no model that is known; did you mean RTX4090?" in gpunion.out
    assert gpunion(*words, "--gpu", "FOO9000:24GB:0.5", "--gpu", "A100:40GB") == 0
    assert "that is known" not in gpunion.out


def test_a_machine_without_a_gpu_is_told_what_it_can_lend_all_the_same(gpunion: Terminal) -> None:
    table = {
        "coordinator": "http://x.example",
        "node_id": "a",
        "vault": "vault",
        "cpus": 8,
        "memory": "16GiB",
    }
    bare = settings_of(table, gpunion.here, {})
    said = join_command._lends(bare, driver=False)
    assert "it lends none: 8 CPUs and 16 GiB of memory, to jobs that need no GPU (--gpus 0)" in said
    named = settings_of({**table, "gpu": [{"model": "A100"}]}, gpunion.here, {})
    assert join_command._lends(named, driver=False).startswith("It lends 1 GPU, as named by you")


@pytest.mark.parametrize(
    ("room", "trouble", "means"),
    [
        ("fine", "", "guests may come"),
        ("full", "it is full", "no new guests come before there is room"),
        ("failing", "it is full", "no new guests come while its disk fails"),
    ],
)
def test_guests_are_not_said_to_come_where_the_disk_has_no_room(room: str, trouble: str, means: str) -> None:
    status: dict[str, object] = {
        **dict.fromkeys(["deadline_in_s", "images", "terms", "because", "killed", "disk_trouble"]),
        "tenure": "sharing",
        "node_id": "a",
        "lab": "",
        "gpus": [],
        "guests": [],
        "lease_left_s": None,
        "runtime": {"sandboxed": True, "described": "-"},
        "coordinator": {"url": "http://x.example", "connected": True, "trouble": ""},
        "disk": {"room": room, "free_bytes": 1, "trouble": trouble},
    }
    lines = status_command._lines(status)
    assert means in lines[1]
    assert ("WARNING: it is full" in lines) == bool(trouble)
    away = {"coordinator": {"url": "http://x.example", "connected": False, "trouble": ""}}
    assert "sharing: but no" in status_command._lines({**status, **away})[1]
    lost = status_command._lines({**status, "vault_trouble": "the vault is not mounted"})
    assert "WARNING: the vault is not mounted" in lost
    assert "sharing: but no" in lost[1]
    taken = {"withheld": {"because": "GPU 0: its owner has it"}, "stale": False}
    lent = {"withheld": None, "stale": False}
    if room == "fine":
        assert "guests may come" in status_command._lines({**status, "gpus": [taken, lent]})[1]
        assert "none of its GPUs takes new" in status_command._lines({**status, "gpus": [taken, taken]})[1]


def test_notice_and_now_exclude_each_other(gpunion: Terminal) -> None:
    assert gpunion("reclaim", "--notice", "5s", "--now") == 2
    assert "not allowed with argument" in gpunion.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpu", "A100"], "--gpu A100: write MODEL:MEMORY"),
        (["--gpu", "A100:0GB"], "--gpu A100:0GB: '0GB' is no amount of memory"),
        (["--gpu", "A100:lots"], "'lots' is not a size"),
        (["--gpu", "A100:40GB:fast"], "'fast' is not a number above zero"),
        (["--notice", "soon"], "'soon' is not a duration"),
        (["--notice", "-5s"], "'-5s' is not a duration"),
        (["--notice"], "--notice: a value is missing after it"),
        (["--name", ""], "--name: '' is no name; write one, or leave the flag out"),
        (
            ["--name", "al pha"],
            "'al pha' cannot be a machine's name\nNext: choose one with --name: letters, digits",
        ),
        (
            ["--lab", "my lab"],
            "'my lab' cannot be a lab's name\nNext: choose one with --lab: letters",
        ),
        (["--lab", "l" * 65], "cannot be a lab's name"),
        (["--max-guests", "0"], "at least 1 is needed"),
    ],
)
def test_a_mistake_in_joining_spends_no_token(gpunion: Terminal, words: list[str], message: str) -> None:
    state = str(gpunion.here / "state")
    assert gpunion("join", "http://127.0.0.1:1", "--token", "t", "--state-dir", state, *words) == 2
    assert message in gpunion.err


def test_joining_needs_an_address_and_a_token(gpunion: Terminal) -> None:
    assert gpunion("join", "http://127.0.0.1:1") == 2
    assert "--token" in gpunion.err
    assert gpunion("join", "campus", "--token", "t") == 2
    assert "not a coordinator's address" in gpunion.err


def test_a_campus_that_does_not_answer_cannot_be_joined(gpunion: Terminal) -> None:
    state = gpunion.here / "state"
    assert gpunion("join", "http://127.0.0.1:1", "--token", "t", "--state-dir", str(state)) == 6
    assert "cannot be reached" in gpunion.err
    assert "Next: check the address" in gpunion.err
    assert not state.exists()


def test_kill_is_the_same_command_here(gpunion: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpunion("--json", "kill", "--state-dir", str(gpunion.here)) == 0
    assert json.loads(capsys.readouterr().out)["complete"] is True


@pytest.mark.parametrize(
    ("tenure", "deadline_in_s", "shown"),
    [
        ("sharing", None, "yes"),
        ("paused", None, "no new guests"),
        ("reclaiming", 15.0, "yours in 15 s"),
        ("reclaimed", None, "no"),
    ],
)
def test_no_gpu_of_a_machine_that_is_taken_back_is_called_lent(
    gpunion: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    tenure: str,
    deadline_in_s: float | None,
    shown: str,
) -> None:
    gpu = dict.fromkeys(["memory_used_bytes", "utilisation", "temperature_c", "power_w", "withheld"])
    of_it = {"index": 0, "model": "A100", "memory_bytes": 1, "declared": True, "runs": [], "processes": []}
    status = {"tenure": tenure, "deadline_in_s": deadline_in_s, "gpus": [{**gpu, **of_it}], "guests": []}
    monkeypatch.setattr(owner_client, "status", lambda state_dir: {"message": "", "status": status})
    monkeypatch.setattr(status_command, "_lines", lambda status: [])
    assert gpunion("status") == 0, gpunion.err
    assert re.split(r"\s{2,}", gpunion.out.splitlines()[2])[2] == shown


@pytest.mark.parametrize(("connected", "guests"), [(False, 1), (True, 1), (False, 0)])
def test_with_the_coordinator_away_it_is_said_how_long_guests_stay(connected: bool, guests: int) -> None:
    guest = {"run_id": "r", "leaves_because": ""}
    status = {
        **dict.fromkeys(["deadline_in_s", "images", "terms", "because", "killed", "disk_trouble"]),
        "tenure": "sharing",
        "node_id": "a",
        "lab": "",
        "gpus": [],
        "guests": [guest] * guests,
        "runtime": {"sandboxed": True, "described": "-"},
        "coordinator": {"url": "http://x.example", "connected": connected, "trouble": ""},
        "lease_left_s": 2.0,
        "guests_end_in_s": 42.0,
    }
    said = any("guests are saved and end in 42 s" in line for line in status_command._lines(status))
    assert said == (not connected and guests > 0)


@pytest.mark.parametrize(
    ("for_job", "said"),
    [
        ("job-2", "while job-2, of a higher class, has its GPU"),
        (None, "while you use its GPU; it goes on when you are done"),
    ],
)
def test_the_owner_is_told_who_stands_in_their_memory_and_for_whom(for_job: str | None, said: str) -> None:
    guest = {"name": "train", "run_id": "job-1-e1"}
    parked = {"for_job": for_job, "for_s": 58.0, "memory_bytes": 10 * 1024**3}
    told = status_command._stands_still(guest, parked)
    assert told.startswith("train has stood still in 10 GiB of your memory for 58 s, ")
    assert said in told


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    program = tmp_path / "home" / "bin" / "gpunion"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_what_to_type_next_names_a_program_that_is_in_no_path(installed: Path) -> None:
    said = "This is gpunion. Next: gpunion agent, to start lending; gpunion status, to see who is here"
    mended = (
        f"This is gpunion. Next: {installed} agent, to start lending; {installed} status, to see who is here"
    )
    assert owner.as_it_is_called(said, installed, "/nowhere") == mended
    assert owner.as_it_is_called(mended, installed, "/nowhere") == mended


def test_what_to_type_next_is_short_where_the_shell_finds_that_program(
    installed: Path, tmp_path: Path
) -> None:
    link = tmp_path / "bin" / "gpunion"
    link.parent.mkdir()
    link.symlink_to(installed)
    said = "Next: gpunion agent"
    assert owner.as_it_is_called(said, installed, str(installed.parent)) == said
    assert owner.as_it_is_called(said, link, str(installed.parent)) == said
    assert owner.as_it_is_called(said, installed, str(link.parent)) == said
    assert owner.as_it_is_called(said, Path("/usr/lib/gpunion/__main__.py"), "/nowhere") == said
