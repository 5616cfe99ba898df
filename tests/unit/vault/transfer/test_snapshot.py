from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from gpunion.vault.manifest import BadManifest, CheckpointTorn, LocalDiskTrouble, ShipCancelled
from gpunion.vault.transfer.snapshot import COPY_BYTES, cut, remove_links_that_lead_outside


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "step-1").mkdir(parents=True)
    (source / "step-1" / "weights").write_text("one")
    (source / "step-2").mkdir()
    (source / "step-2" / "weights").write_text("two")
    os.symlink("/etc/hostname", source / "step-2" / "link")
    os.mkfifo(source / "pipe")
    return source


def take(source: Path, *, files: tuple[str, ...] | None = None, still: bool = False) -> dict[str, str]:
    target = source.parent / "cut"
    cut(source, target, files=files, still=still, cancelled=lambda: False)
    return {
        path.relative_to(target).as_posix(): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in sorted(target.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize("still", [True, False])
def test_the_whole_directory_is_cut_and_links_are_not_followed(source: Path, still: bool) -> None:
    assert take(source, still=still) == {
        "step-1/weights": "one",
        "step-2/link": "/etc/hostname",
        "step-2/weights": "two",
    }


def test_links_that_lead_outside_are_left_out_where_they_are_not_wanted(source: Path, tmp_path: Path) -> None:
    os.symlink("../step-1/weights", source / "step-2" / "inside")
    cut(source, tmp_path / "cut", files=None, still=True, cancelled=lambda: False, output=True)
    assert sorted(path.name for path in (tmp_path / "cut" / "step-2").iterdir()) == ["inside", "weights"]
    assert remove_links_that_lead_outside(source) == ["step-2/link"]
    assert sorted(path.name for path in (source / "step-2").iterdir()) == ["inside", "weights"]


def test_only_named_files_are_cut(source: Path) -> None:
    assert take(source, files=("step-2/weights",)) == {"step-2/weights": "two"}


def test_a_named_directory_is_cut_whole(source: Path) -> None:
    assert set(take(source, files=("step-2",))) == {"step-2/link", "step-2/weights"}


def test_a_copy_stays_as_it_was_when_the_guest_goes_on(source: Path) -> None:
    take(source)
    (source / "step-1" / "weights").write_text("later")
    assert (source.parent / "cut" / "step-1" / "weights").read_text() == "one"


def test_a_cut_taken_again_replaces_the_one_before(source: Path) -> None:
    take(source)
    (source / "step-1" / "weights").unlink()
    assert "step-1/weights" not in take(source)


def test_a_file_that_is_named_and_not_there_makes_the_cut_torn(source: Path) -> None:
    with pytest.raises(CheckpointTorn, match="step-3"):
        take(source, files=("step-3/weights",))


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a//b", "./a", ""])
def test_names_that_lead_outside_are_refused(source: Path, name: str) -> None:
    with pytest.raises(BadManifest):
        take(source, files=(name,))


def test_a_directory_that_became_a_link_is_not_entered(source: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("host's")
    os.rename(source, tmp_path / "moved")
    os.symlink(tmp_path / "secret", source)
    with pytest.raises(LocalDiskTrouble):
        take(source)


def test_a_tree_without_end_is_refused(source: Path) -> None:
    deep = source
    for _ in range(70):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with pytest.raises(BadManifest, match="deeper"):
        take(source)


def test_a_cut_that_is_no_longer_wanted_stops(source: Path) -> None:
    with pytest.raises(ShipCancelled):
        cut(source, source.parent / "cut", files=None, still=False, cancelled=lambda: True)


def test_a_directory_that_is_gone_is_torn(tmp_path: Path) -> None:
    with pytest.raises(CheckpointTorn):
        take(tmp_path / "source")


def test_a_log_that_grows_all_the_time_is_taken_as_long_as_it_was(source: Path) -> None:
    log, target, over = source / "log", source.parent / "cut", threading.Event()
    log.write_bytes(b"." * 16 * COPY_BYTES)

    def write_on() -> None:
        with open(log, "ab", buffering=0) as file:
            while not over.is_set():
                file.write(b"." * 100)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        for _ in range(3):
            cut(source, target, files=None, still=False, cancelled=lambda: False, output=True)
            assert 16 * COPY_BYTES <= (target / "log").stat().st_size <= log.stat().st_size
    finally:
        over.set()
        writer.join()


def test_a_file_that_goes_away_is_left_out_where_the_program_writes_and_torn_where_its_state_is(
    source: Path,
) -> None:
    def gone() -> bool:  # asked between the list of names and the look at each
        (source / "z").unlink(missing_ok=True)
        return False

    target = source.parent / "cut"
    (source / "z").write_text("last")
    cut(source, target, files=None, still=False, cancelled=gone, output=True)
    assert not (target / "z").exists()
    assert (target / "step-2" / "weights").read_text() == "two"
    (source / "z").write_text("last")
    with pytest.raises(CheckpointTorn, match="went away"):
        cut(source, target, files=None, still=False, cancelled=gone)


def test_a_file_of_holes_is_cut_with_its_holes(source: Path, tmp_path: Path) -> None:
    """A program that goes on has its files copied: one that says it is huge must not fill the disk."""
    with open(source / "sparse", "wb") as file:
        file.truncate(10 * COPY_BYTES)
        file.seek(7 * COPY_BYTES)
        file.write(b"state")
    cut(source, tmp_path / "cut", files=None, still=False, cancelled=lambda: False)
    assert (tmp_path / "cut/sparse").read_bytes() == (source / "sparse").read_bytes()
    assert (tmp_path / "cut/sparse").stat().st_blocks * 512 <= 2 * COPY_BYTES
