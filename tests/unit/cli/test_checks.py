"""What the doctor finds."""

from __future__ import annotations

import errno
import io
import json
import os
import pwd
from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpunion.agent.machine.service import lingers
from gpunion.cli.checks import machine
from gpunion.cli.checks.campus import check_clock, check_vault, mend_of, start_hint
from gpunion.cli.checks.finding import State
from gpunion.cli.checks.machine import (
    check_agent,
    check_cgroup,
    check_disk,
    check_logging_out,
    check_python,
    check_state_dir,
)
from gpunion.cli.context import Context
from gpunion.cli.exits import Trouble
from gpunion.cli.main import main
from gpunion.cli.output.screen import Screen
from gpunion.sdk.errors import Unreachable
from gpunion.vault.mark import mark_of
from tests.unit.cli.campus_double import CampusDouble, Terminal, a_problem

AS_ROOT = os.geteuid() == 0


@pytest.fixture(autouse=True)
def _elsewhere(gpunion: Terminal) -> None:
    gpunion.environment["GPUNION_STATE_DIR"] = str(gpunion.here / "state")


def findings(gpunion: Terminal) -> dict[str, dict[str, str]]:
    gpunion("doctor", "--json")
    return {finding["check"]: finding for finding in json.loads(gpunion.out)["findings"]}


def test_what_is_wrong_comes_with_the_command_that_mends_it(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.refuses = Unreachable("http://127.0.0.1:1", "connection refused")
    assert gpunion("doctor") == 1
    assert "connection refused" in gpunion.out
    assert "coordinator (missing): curl -sv http://campus.example/api/v1/campus" in gpunion.out
    found = findings(gpunion)
    assert all(finding["mend"] for finding in found.values() if finding["state"] != "ok")


def test_a_wrong_token_is_told_from_a_coordinator_that_is_away(
    gpunion: Terminal, campus: CampusDouble
) -> None:
    campus.refuses = a_problem(401, "unauthenticated", "the token is not known")
    found = findings(gpunion)
    assert found["coordinator"]["state"] == "ok"
    assert found["token"]["state"] == "missing"
    assert "gpunion login" in found["token"]["mend"]


def test_settings_that_cannot_be_read_are_found(gpunion: Terminal) -> None:
    state = gpunion.here / "state"
    state.mkdir(mode=0o700)
    (state / "agent.toml").write_text("coordinatr = 'x'\n")
    assert "did you mean 'coordinator'?" in findings(gpunion)["agent settings"]["found"]


def test_a_clock_that_is_wrong_is_a_warning_with_its_direction() -> None:
    here = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    finding = check_clock("2026-01-01T00:00:00.000Z", here)
    assert (finding.state, finding.found) == (State.WARNING, "1 min ahead of the coordinator's")
    assert check_clock("2026-01-01T00:01:01.000Z", here).state is State.OK


def test_a_vault_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    stranger = check_vault(tmp_path, needed=True)
    assert stranger.state is State.MISSING
    assert "it is not the campus's vault" in stranger.found
    assert list(tmp_path.iterdir()) == []
    mark_of(tmp_path)
    assert check_vault(tmp_path, needed=True).state is State.OK
    assert check_vault(tmp_path, needed=True, mark=mark_of(tmp_path)).state is State.OK
    assert check_vault(tmp_path, needed=True, mark="of another campus").state is State.MISSING
    assert check_vault(tmp_path / "not mounted", needed=True).state is State.MISSING
    (tmp_path / "file").write_text("")
    assert check_vault(tmp_path / "file", needed=True).state is State.MISSING
    assert check_vault(tmp_path / "file", needed=False).state is State.WARNING


def test_a_vault_that_is_mounted_for_reading_is_mended_by_mounting_it_otherwise() -> None:
    assert mend_of("Permission denied", Path("/v")).startswith("mount the campus's vault there, or give")
    assert mend_of(os.strerror(errno.EROFS), Path("/v")).startswith("mount it writable: findmnt -T /v")
    assert mend_of(os.strerror(errno.ENOSPC), Path("/v")).startswith(
        "make room on that disk; gpunion vault ls /v"
    )


def test_a_state_directory_open_to_others_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert check_state_dir(tmp_path).mend == f"chmod 700 {tmp_path}"
    tmp_path.chmod(0o700)
    assert check_state_dir(tmp_path).state is State.OK
    assert check_state_dir(tmp_path / "not" / "yet").state is State.OK


@pytest.mark.skipif(AS_ROOT, reason="root may write everywhere")
def test_a_state_directory_of_somebody_else_is_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert check_state_dir(tmp_path).state is State.MISSING
    tmp_path.chmod(0o700)


def test_the_machine_that_runs_the_tests_is_sound(tmp_path: Path) -> None:
    assert check_python().state is State.OK
    assert check_disk("disk", tmp_path / "none").state in (State.OK, State.WARNING)
    assert check_cgroup(systemd=True).state in (State.OK, State.WARNING)


def test_who_has_no_root_is_told_what_logging_out_ends(tmp_path: Path) -> None:
    assert not lingers(os.geteuid(), tmp_path)
    assert "enable-linger" in check_logging_out(lingers=False).mend
    (tmp_path / pwd.getpwuid(os.geteuid()).pw_name).touch()
    assert lingers(os.geteuid(), tmp_path)
    assert check_logging_out(lingers=True).state is State.OK


def test_where_no_systemd_runs_nobody_is_told_to_install_a_service(tmp_path: Path) -> None:
    whose = "" if AS_ROOT else " --user"
    assert check_agent(tmp_path, systemd=True).mend == f"gpunion agent install{whose}, or: gpunion agent"
    assert check_agent(tmp_path, systemd=False).mend == "gpunion agent"
    assert "agent install" not in check_cgroup(systemd=False).mend


def test_terms_that_want_guests_parked_where_no_driver_can_are_found(gpunion: Terminal) -> None:
    state = gpunion.here / "state"
    state.mkdir(mode=0o700)
    (state / "agent.toml").write_text(
        'coordinator = "http://campus.example"\nnode_id = "a"\nvault = "vault"\n[[gpu]]\nmodel = "named"\n'
    )
    (state / "credential").write_text("secret\n")
    (state / "credential").chmod(0o600)
    (state / "terms.toml").write_text("park = true\n")
    found = findings(gpunion)["terms"]
    assert "not enforced: park: no guest can be parked here" in found["found"]
    assert found["mend"] == "install NVIDIA's driver 570 or newer; or gpunion terms set park="


def test_a_machine_that_joined_asks_its_coordinator_as_itself_and_needs_no_libraries_of_one(
    gpunion: Terminal, campus: CampusDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = gpunion.here / "state"
    state.mkdir(mode=0o700)
    (state / "agent.toml").write_text(
        'coordinator = "http://campus.example"\nnode_id = "a"\nvault = "vault"\n[[gpu]]\nmodel = "named"\n'
    )
    (state / "credential").write_text("secret\n")
    (state / "credential").chmod(0o600)
    asked: list[tuple[str | None, str | None]] = []

    def opened(_context: Context, arguments: Namespace) -> CampusDouble:
        asked.append((arguments.url, arguments.token))
        if arguments.url is None:
            raise Trouble("no coordinator is known")
        return campus

    out = io.StringIO()
    monkeypatch.setattr(machine, "find_spec", lambda name: None if name == "fastapi" else name)
    context = Context(
        screen=Screen(out=out), environment=gpunion.environment, here=gpunion.here, open_campus=opened
    )
    main(["doctor", "--json"], context)
    found = {finding["check"]: finding["state"] for finding in json.loads(out.getvalue())["findings"]}
    assert asked == [(None, None), ("http://campus.example", "secret")]
    assert (found["coordinator"], found["libraries"]) == ("ok", "ok")


def test_a_campus_elsewhere_is_not_started_here() -> None:
    assert "gpunion coordinator" in start_hint("http://127.0.0.1:8765")
    assert "curl" in start_hint("https://campus.example")
