"""What a job has made comes back: whole, once, and from where a fetch broke off."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpunion.vault.tree import BLOCK_SIZE_BYTES
from tests.trees import a_tree
from tests.unit.cli.campus_double import CampusDouble, Terminal, a_job

MADE = {"weights/best.pt": b"w" * 10, "weights/last.pt": b"l", "log.txt": b"done"}


@pytest.fixture
def campus() -> CampusDouble:
    double = CampusDouble(a_job(1, phase="succeeded", ended_at="2026-01-01T00:00:00.000Z", output="c"))
    double.made = a_tree(MADE, {"weights/newest": "best.pt"})
    return double


@pytest.fixture
def terminal(campus: CampusDouble, tmp_path: Path) -> Terminal:
    return Terminal(campus, tmp_path)


def test_all_of_it_and_a_second_time_nothing(terminal: Terminal, tmp_path: Path) -> None:
    assert terminal("cp", "train:", "results") == 0
    found = {path: (tmp_path / "results" / path).read_bytes() for path in MADE}
    assert found == MADE
    assert os.readlink(tmp_path / "results" / "weights" / "newest") == "best.pt"
    assert not list((tmp_path / "results").rglob("*.gpunion-part"))
    assert terminal("cp", "train:", "results", "--json") == 0
    answer = json.loads(terminal.out)
    assert (answer["files"], answer["final"]) == (3, True)
    assert answer["fetched_bytes"] == len("best.pt")  # links are made anew


@pytest.mark.parametrize(
    ("path", "target", "lands"),
    [
        ("log.txt", ".", "log.txt"),
        ("log.txt", "renamed", "renamed"),
        ("weights", "fresh", "fresh/best.pt"),
        ("weights/", "here", "here/weights/best.pt"),
    ],
)
def test_a_part_of_it_lands_where_cp_would_put_it(
    terminal: Terminal, tmp_path: Path, path: str, target: str, lands: str
) -> None:
    (tmp_path / "here").mkdir()
    assert terminal("cp", f"train:{path}", target) == 0
    assert (tmp_path / lands).is_file()


def test_output_that_is_still_being_sent_is_waited_for(campus: CampusDouble, tmp_path: Path) -> None:
    over = campus.known.pop(a_job(1)["id"])
    finishing = {"since": over["submitted_at"], "trouble": None}
    campus.known[over["id"]] = a_job(1, phase="finishing", finishing=finishing)

    class Passing(Terminal):
        def pause(self, seconds: float) -> None:
            super().pause(seconds)
            campus.known[over["id"]] = over

    terminal = Passing(campus, tmp_path)
    assert terminal("cp", "train:", "results") == 0
    assert "its output is still being sent" in terminal.err
    assert (tmp_path / "results" / "log.txt").read_bytes() == b"done"
    assert len(terminal.pauses) == 1


def test_output_that_is_not_taken_is_no_empty_folder(
    campus: CampusDouble, terminal: Terminal, tmp_path: Path
) -> None:
    finishing = {"since": "2026-01-01T00:00:00.000Z", "trouble": "there is no room"}
    campus.known = {a_job(1)["id"]: a_job(1, phase="finishing", finishing=finishing)}
    assert terminal("cp", "train:", "results") == 6
    assert "its output is not taken: there is no room" in terminal.err
    assert not (tmp_path / "results").exists()


def test_a_fetch_that_was_cut_goes_on_from_there(terminal: Terminal, tmp_path: Path) -> None:
    count = 6
    data = b"".join(bytes([number]) * BLOCK_SIZE_BYTES for number in range(count)) + b"end"
    made = terminal.campus.made = a_tree({"big": data})
    terminal.campus.cut_after = 4
    assert terminal("cp", "train:big", ".") == 6
    assert not (tmp_path / "big").exists()
    terminal.campus.cut_after, terminal.campus.fetched = None, []
    assert terminal("cp", "train:big", ".") == 0
    assert (tmp_path / "big").read_bytes() == data
    assert len(terminal.campus.fetched) == len(made.blocks) - 4


def test_a_link_that_leads_outside_is_left_out_and_named(terminal: Terminal, tmp_path: Path) -> None:
    terminal.campus.made = a_tree({"a": b"x"}, {"evil": "../../secret"})
    assert terminal("cp", "train:", "results") == 0
    assert "evil" in terminal.err
    assert not (tmp_path / "results" / "evil").is_symlink()


def test_what_is_not_there_says_what_is(terminal: Terminal) -> None:
    assert terminal("cp", "train:nothing", ".") == 3
    assert "log.txt, weights" in terminal.err
    terminal.campus.made = None
    assert terminal("cp", "train:", ".") == 3


def test_of_an_empty_output_it_is_told_how_a_job_leaves_something(terminal: Terminal) -> None:
    terminal.campus.made = a_tree({}, {})
    assert terminal("cp", "train:nothing", ".") == 3
    assert "$GPUNION_OUTPUT_DIR" in terminal.err


def test_the_other_way_is_refused_in_words(terminal: Terminal) -> None:
    assert terminal("cp", "data", "train:data") == 2
    assert "when it is handed in" in terminal.err


def test_run_fetches_at_the_end_where_asked(terminal: Terminal, tmp_path: Path) -> None:
    class EndsAtOnce(CampusDouble):
        def job(self, job_id: str) -> dict[str, object]:
            over = {"phase": "succeeded", "exit_code": 0, "output": "c", "ended_at": "now"}
            return {**self._find(job_id), **over}

    terminal.campus = EndsAtOnce()
    terminal.campus.made = a_tree(MADE)
    assert terminal("run", "--no-dir", "--", "true") == 0
    assert "gpunion cp" in terminal.err
    assert terminal("run", "--no-dir", "--output", "results", "--", "true") == 0
    assert (tmp_path / "results" / "log.txt").read_bytes() == b"done"
