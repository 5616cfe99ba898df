"""What is fetched comes to lie below the folder that the user named, whatever a job's lists say."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from gpunion.cli.jobs.beneath import Beneath, part_of
from tests.trees import SmallTree, a_tree
from tests.unit.cli.campus_double import CampusDouble, Terminal, a_job

KEY = "ssh-ed25519 of the student"


class SwapsMeanwhile(CampusDouble):
    """Something happens in the student's folder while blocks are on their way."""

    meanwhile: Callable[[], None]

    def output_blocks(
        self, job_id: str, checkpoint_id: str, names: Sequence[str]
    ) -> Iterator[tuple[str, bytes]]:
        self.meanwhile()
        yield from super().output_blocks(job_id, checkpoint_id, names)


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    ended = a_job(1, phase="succeeded", ended_at="2026-01-01T00:00:00.000Z", output="c")
    home = tmp_path / "home" / "student"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "authorized_keys").write_text(KEY)
    (home / "results").mkdir()
    return Terminal(SwapsMeanwhile(ended), home)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "home" / "student" / ".ssh" / "authorized_keys"


def fetch(terminal: Terminal, tree: SmallTree, *, meanwhile: Callable[[], None] = lambda: None) -> int:
    assert isinstance(terminal.campus, SwapsMeanwhile)
    terminal.campus.made = tree
    terminal.campus.meanwhile = meanwhile
    return terminal("cp", "train:", "results")


def test_three_lists_one_after_another_lead_nowhere_else(terminal: Terminal, key: Path) -> None:
    assert fetch(terminal, a_tree({}, {"k": "."})) == 0
    assert fetch(terminal, a_tree({}, {"k/k/k/m/l": "../../../../.ssh"})) == 0
    assert fetch(terminal, a_tree({"m/l/authorized_keys": b"the job's"})) == 0
    assert key.read_text() == KEY
    results = terminal.here / "results"
    assert (results / "m" / "l" / "authorized_keys").read_bytes() == b"the job's"
    assert not (results / "m" / "l").is_symlink()
    # Where the second list had folders no link stands any more, so its link lies as deep as its name says.
    assert os.readlink(results / "k" / "k" / "k" / "m" / "l") == "../../../../.ssh"
    assert not (results / "k").is_symlink()


def test_a_link_that_is_put_in_the_way_meanwhile_is_not_followed(terminal: Terminal, key: Path) -> None:
    folder = terminal.here / "results" / "m"

    def swap() -> None:
        folder.rename(terminal.here / "aside")
        folder.symlink_to(key.parent)

    fetch(terminal, a_tree({"m/authorized_keys": b"the job's"}), meanwhile=swap)
    assert key.read_text() == KEY
    assert os.listdir(key.parent) == ["authorized_keys"]


def test_a_part_that_became_a_link_meanwhile_is_not_written_through(terminal: Terminal, key: Path) -> None:
    part = terminal.here / "results" / part_of("a")

    def swap() -> None:
        part.unlink()
        part.symlink_to(key)

    assert fetch(terminal, a_tree({"a": b"x" * len(KEY)}), meanwhile=swap) != 0
    assert key.read_text() == KEY


def test_a_part_that_was_left_as_a_link_is_made_anew(terminal: Terminal, key: Path) -> None:
    (terminal.here / "results" / part_of("a")).symlink_to(key)
    assert fetch(terminal, a_tree({"a": b"made"})) == 0
    assert key.read_text() == KEY
    assert (terminal.here / "results" / "a").read_bytes() == b"made"


def test_a_folder_in_place_of_an_earlier_file_and_the_other_way(terminal: Terminal) -> None:
    assert fetch(terminal, a_tree({"a": b"file", "b/c": b"inside"})) == 0
    assert fetch(terminal, a_tree({"a/d": b"now inside"})) == 0
    assert (terminal.here / "results" / "a" / "d").read_bytes() == b"now inside"
    assert fetch(terminal, a_tree({"b": b"now a file"})) != 0
    assert "is a directory here" in terminal.err
    assert (terminal.here / "results" / "b" / "c").read_bytes() == b"inside"


@pytest.mark.parametrize("path", ["/etc/cron.d/x", "../x", "a/../../x", "a//b", ".", ""])
def test_a_list_with_a_name_that_leads_elsewhere_is_refused_whole(terminal: Terminal, path: str) -> None:
    assert fetch(terminal, a_tree({"fine": b"fine", path: b"x"})) != 0
    assert "listed wrongly" in terminal.err
    assert os.listdir(terminal.here / "results") == []


def test_a_name_cannot_be_both_a_folder_and_a_link(terminal: Terminal) -> None:
    assert fetch(terminal, a_tree({"a/b": b"x"}, {"a": "."})) != 0
    assert "listed wrongly" in terminal.err


def test_a_target_that_the_user_made_a_link_is_theirs_to_choose(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    (terminal.here / "elsewhere").symlink_to(tmp_path / "large disk")
    assert isinstance(terminal.campus, SwapsMeanwhile)
    terminal.campus.meanwhile = lambda: None
    terminal.campus.made = a_tree({"a": b"x", "w/b": b"y"})
    assert terminal("cp", "train:", "elsewhere") == 0
    assert (tmp_path / "large disk" / "w" / "b").read_bytes() == b"y"


def test_a_folder_of_the_output_is_not_put_through_a_link_of_that_name(terminal: Terminal, key: Path) -> None:
    (terminal.here / "results" / "w").symlink_to(key.parent)
    assert isinstance(terminal.campus, SwapsMeanwhile)
    terminal.campus.meanwhile = lambda: None
    terminal.campus.made = a_tree({"w/authorized_keys": b"the job's"})
    assert terminal("cp", "train:w", "results") == 0
    assert key.read_text() == KEY
    assert (terminal.here / "results" / "w" / "authorized_keys").read_bytes() == b"the job's"


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    here = Beneath(tmp_path / "a", "b")
    here.make_folder("c/d/e")
    os.close(here.make_file("c/f"))
    here.link("c/l", "f", ".l")
    here.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_name_as_long_as_a_system_takes_is_fetched(terminal: Terminal) -> None:
    longest = "实验结果" * 20 + "-" * 11 + ".txt"
    assert fetch(terminal, a_tree({longest: b"made", "other": b"too"})) == 0
    assert (terminal.here / "results" / longest).read_bytes() == b"made"
