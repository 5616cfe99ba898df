"""An owner's terms on the command line, with no agent running: the file alone, checked as an agent would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.campus_double import Terminal

JOINED = 'coordinator = "http://127.0.0.1:1"\nnode_id = "a"\nvault = "vault"\n[terms]\nnotice_s = 30\n'


@pytest.fixture
def owner(gpunion: Terminal) -> Terminal:
    (gpunion.here / "agent.toml").write_text(JOINED)
    credential = gpunion.here / "credential"
    credential.write_text("secret\n")
    credential.chmod(0o600)
    gpunion.environment["GPUNION_STATE_DIR"] = str(gpunion.here)
    return gpunion


def an_editor(here: Path, script: str) -> str:
    path = here / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_terms_are_shown_at_a_glance_with_what_each_is(owner: Terminal) -> None:
    assert owner("terms") == 0
    assert "No agent runs: nothing is lent" in owner.out
    assert "30s" in owner.out
    assert "how long guests get to leave" in owner.out


def test_a_change_is_checked_written_and_shown(owner: Terminal) -> None:
    assert owner("terms", "set", "notice=90s", "hours=Sat-Sun", "caps.vram=8GiB") == 0
    assert "notice=90s; hours=Sat-Sun; caps.vram=8GiB. No agent runs; they count when it starts." in owner.out
    assert owner("--json", "terms") == 0
    shown = json.loads(owner.out)["terms"]
    assert (shown["values"]["hours"], shown["values"]["notice"], shown["agent_runs"]) == (
        "Sat-Sun",
        "90s",
        False,
    )
    assert owner("terms", "set", "hours=") == 0
    assert "hours=as usual" in owner.out


def test_a_calendar_beside_you_is_named_as_you_would(owner: Terminal) -> None:
    (owner.here / "mine.ics").write_text("BEGIN:VCALENDAR\nEND:VCALENDAR\n")
    assert owner("terms", "set", "calendar=mine.ics") == 0
    assert f"calendar={owner.here / 'mine.ics'}" in owner.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["notise=1s"], 2, "did you mean 'notice'?"),
        (["notice"], 2, "is not KEY=VALUE"),
        (["notice=never"], 2, "Nothing was changed: your terms are as before"),
        (["calendar=none.ics"], 5, "No such file"),
    ],
)
def test_a_mistake_changes_nothing(owner: Terminal, words: list[str], code: int, said: str) -> None:
    assert owner("terms", "set", *words) == code
    assert said in owner.err
    assert not (owner.here / "terms.toml").exists()


def test_the_editor_s_text_is_taken_as_it_is_or_kept_to_be_mended(owner: Terminal) -> None:
    owner.environment["EDITOR"] = an_editor(owner.here, "echo 'notice = \"7s\" # mine' > $1")
    assert owner("terms", "edit") == 0
    assert (owner.here / "terms.toml").read_text() == 'notice = "7s" # mine\n'
    owner.environment["EDITOR"] = an_editor(owner.here, "echo 'oops = 1' > $1")
    assert owner("terms", "edit") == 2
    kept = Path(owner.err.rpartition("it is in ")[2].strip())
    assert kept.read_text() == "oops = 1\n"
    kept.unlink()
    assert (owner.here / "terms.toml").read_text() == 'notice = "7s" # mine\n'


@pytest.mark.parametrize(
    ("editor", "said"), [("false", "ended with 1"), ("no-such-editor", "cannot be started")]
)
def test_an_editor_that_fails_changes_nothing_and_leaves_nothing(
    owner: Terminal, monkeypatch: pytest.MonkeyPatch, editor: str, said: str
) -> None:
    drafts = owner.here / "drafts"
    drafts.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(drafts))
    owner.environment["EDITOR"] = editor
    assert owner("terms", "edit") == 2
    assert said in owner.err
    assert list(drafts.iterdir()) == []


def test_what_was_written_before_an_editor_failed_is_kept(owner: Terminal) -> None:
    owner.environment["EDITOR"] = an_editor(owner.here, "echo '# mine' > $1; exit 3")
    assert owner("terms", "edit") == 2
    kept = Path(owner.err.rpartition("what you wrote is in ")[2].strip())
    assert kept.read_text() == "# mine\n"
    kept.unlink()


def test_who_never_joined_has_no_terms(gpunion: Terminal) -> None:
    assert gpunion("terms", "--state-dir", str(gpunion.here)) == 5
    assert "has not joined" in gpunion.err


def test_a_broken_file_or_calendar_is_named_by_status_of_the_terms_and_by_the_doctor(owner: Terminal) -> None:
    (owner.here / "mine.ics").write_text("BEGIN:VCALENDAR\nEND:VCALENDAR\n")
    owner("terms", "set", "calendar=mine.ics")
    owner("doctor")
    assert "all of them are in force" in owner.out
    (owner.here / "mine.ics").write_text("oops")
    owner("doctor")
    assert "no iCalendar file" in owner.out
    (owner.here / "terms.toml").write_text("notise = 1\n")
    assert owner("terms") == 2  # nothing good is kept yet: an agent would not start with it
    assert "did you mean 'notice'?" in owner.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--when-safe", "--notice", "5s"], "not allowed with"),
        (["--limit", "5m"], "--limit goes with --when-safe"),
        (["--when-safe", "--gpu", "0"], "for the whole machine"),
    ],
)
def test_going_when_it_is_safe_is_for_all_and_has_its_own_limit(
    owner: Terminal, words: list[str], said: str
) -> None:
    assert owner("reclaim", *words) == 2
    assert said in owner.err
