"""What only root may pass is opened for a restore, as far as it must be, and shut again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.podman.opening import opening


@pytest.fixture
def userdata(tmp_path: Path) -> Path:
    """As Podman 5 has them: the directories above a container's own, and its own."""
    found = tmp_path / "run" / "containers" / "one" / "userdata"
    found.mkdir(parents=True)
    for directory in (found, *found.parents[:2]):
        directory.chmod(0o700)
    return found


def modes(userdata: Path) -> list[int]:
    return [path.stat().st_mode & 0o777 for path in (userdata.parent.parent, userdata.parent, userdata)]


def places(tmp_path: Path) -> tuple[str, list[str]]:
    return str(tmp_path / "record"), [str(tmp_path / "run")]


def test_those_above_can_be_passed_meanwhile_and_its_own_is_its_roots(tmp_path: Path, userdata: Path) -> None:
    with opening(*places(tmp_path)) as opened:
        opened.reach([str(userdata / "hostname"), str(tmp_path / "run" / "gone" / "hosts"), ""], os.getuid())
        assert modes(userdata) == [0o711, 0o711, 0o700]
    assert modes(userdata) == [0o700, 0o700, 0o700]
    assert (tmp_path / "record").read_text() == ""


def test_the_last_of_several_shuts_what_any_has_opened(tmp_path: Path, userdata: Path) -> None:
    files = [str(userdata / "hostname")]
    with opening(*places(tmp_path)) as last:
        with opening(*places(tmp_path)) as first:
            first.reach(files, os.getuid())
        assert modes(userdata) == [0o711, 0o711, 0o700]
        last.reach(files, os.getuid())
    assert modes(userdata) == [0o700, 0o700, 0o700]


def test_what_one_left_open_that_was_killed_is_shut_by_the_next(tmp_path: Path, userdata: Path) -> None:
    (tmp_path / "record").write_text(f"700 {userdata.parent}\n700 {tmp_path / 'gone'}\n")
    userdata.parent.chmod(0o711)
    with opening(*places(tmp_path)):
        pass
    assert modes(userdata) == [0o700, 0o700, 0o700]


def test_a_line_that_was_cut_short_keeps_no_other_from_being_shut(tmp_path: Path, userdata: Path) -> None:
    (tmp_path / "record").write_bytes(b"7\xff\n\n700\n" + f"700 {userdata.parent}\n".encode() + b"70")
    userdata.parent.chmod(0o711)
    with opening(*places(tmp_path)):
        pass
    assert modes(userdata) == [0o700, 0o700, 0o700]
    assert (tmp_path / "record").read_text() == ""


def test_a_mode_that_somebody_has_changed_meanwhile_stays(tmp_path: Path, userdata: Path) -> None:
    with opening(*places(tmp_path)) as opened:
        opened.reach([str(userdata / "hostname")], os.getuid())
        userdata.parent.chmod(0o750)
    assert modes(userdata) == [0o700, 0o750, 0o700]


def test_elsewhere_than_podman_has_them_nothing_is_touched(
    tmp_path: Path, userdata: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, within = places(tmp_path)
    monkeypatch.chdir(userdata)
    with opening(record, within) as opened:
        opened.reach(["", str(tmp_path / "other" / "hostname")], os.getuid())
        assert modes(userdata) == [0o700, 0o700, 0o700]
    with opening(record, ["/nowhere"]) as opened:
        opened.reach([str(userdata / "hostname")], os.getuid())
        assert modes(userdata) == [0o700, 0o700, 0o700]
