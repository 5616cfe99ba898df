"""Folders for checkpoints that are not mounted when a coordinator starts, and those that were emptied."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gpunion.adapters.memory_database import Disk, MemoryStore
from gpunion.coordinator.locations.configured import LocationRefused
from gpunion.coordinator.locations.marks import PlaceMarks
from gpunion.vault.claim import claimed_by
from gpunion.vault.locations import Place, PlaceKind
from gpunion.vault.manifest import VaultUnavailable
from gpunion.vault.mark import mark_of, why_not
from gpunion.vault.shared import open_own, open_shared
from gpunion.vault.timeout_guard import Patience


def make(directory: str) -> str:
    return mark_of(Path(directory))


class Campus:
    """A coordinator that starts again and again on the same database, with one folder for checkpoints."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = Disk()
        self.place = Place(name="attic", kind=PlaceKind.DIRECTORY, directory=str(folder))

    async def started(
        self, make: Callable[[str], str] = make, patience: Patience | None = None
    ) -> PlaceMarks:
        ask = (patience or Patience()).ask
        marks = PlaceMarks(MemoryStore(self.disk), [self.place], make=make, why_not=why_not, ask=ask)
        await marks.load()
        return marks

    def unmount(self) -> None:
        self.folder.rename(self.folder.with_name("elsewhere"))
        self.folder.mkdir()

    def mount(self) -> None:
        self.folder.rmdir()  # and nothing was left in it
        self.folder.with_name("elsewhere").rename(self.folder)


@pytest.fixture
def campus(tmp_path: Path) -> Campus:
    return Campus(tmp_path / "attic")


async def test_a_folder_that_is_not_mounted_at_a_start_is_not_taken_for_the_place_until_it_is(
    campus: Campus,
) -> None:
    mark = (await campus.started()).folder("attic").mark
    campus.unmount()
    marks = await campus.started()
    assert marks.marked(campus.place).mark == mark
    told = await marks.troubles(["attic", "a bucket"])
    assert told.keys() == {"attic"}
    assert "not mounted, or was emptied" in told["attic"]
    assert "gpunion places accept attic" in told["attic"]
    with pytest.raises(VaultUnavailable, match="its mark is not there"):
        open_shared(marks.folder("attic"))
    with pytest.raises(VaultUnavailable, match="its mark is not there"):
        open_own(campus.folder, mark)
    campus.mount()
    assert await marks.troubles(["attic"]) == {}
    open_shared(marks.folder("attic"))
    open_own(campus.folder, mark)


async def test_a_folder_that_was_emptied_on_purpose_is_taken_when_somebody_says_so(campus: Campus) -> None:
    former = (await campus.started()).folder("attic").mark
    campus.unmount()
    marks = await campus.started()
    await marks.accept("attic")
    assert await marks.troubles(["attic"]) == {}
    accepted = (await campus.started()).folder("attic").mark
    assert accepted == marks.folder("attic").mark != former
    with pytest.raises(LocationRefused, match="no place bucket that is a folder"):
        await marks.accept("bucket")


async def test_a_folder_that_cannot_be_written_is_met_when_it_can(campus: Campus) -> None:
    campus.folder.write_text("in the way")
    marks = await campus.started()
    assert marks.folder("attic").mark == ""
    assert "could never write" in (await marks.troubles(["attic"]))["attic"]
    with pytest.raises(LocationRefused, match="cannot be written by the coordinator"):
        await marks.accept("attic")
    campus.folder.unlink()
    await marks.learn()
    assert await marks.troubles(["attic"]) == {}


async def test_a_folder_that_hangs_keeps_no_coordinator_from_starting(campus: Campus) -> None:
    answers = threading.Event()

    def hangs(directory: str) -> str:
        answers.wait()
        return make(directory)

    marks = await campus.started(hangs, Patience(limit_s=0.05))
    assert marks.folder("attic").mark == ""
    answers.set()
    while not marks.folder("attic").mark:
        await marks.learn()


def claim(directory: str, who: str, *, anew: bool) -> str:
    return claimed_by(Path(directory, "campus"), who, anew=anew)


async def a_coordinator(disk: Disk, *places: Place) -> PlaceMarks:
    marks = PlaceMarks(MemoryStore(disk), places, make=make, why_not=why_not, ask=Patience().ask, claim=claim)
    await marks.load()
    return marks


async def test_a_folder_of_two_campuses_is_told_to_the_second_until_it_takes_it_over(campus: Campus) -> None:
    first, second = Disk(), Disk()
    assert await (await a_coordinator(first, campus.place)).troubles(["attic"]) == {}
    marks = await a_coordinator(second, campus.place)
    assert "used by the coordinator of another campus too" in (await marks.troubles(["attic"]))["attic"]
    assert await (await a_coordinator(first, campus.place)).troubles(["attic"]) == {}
    await marks.accept("attic")
    assert await marks.troubles(["attic"]) == {}
    assert await (await a_coordinator(first, campus.place)).troubles(["attic"]) != {}


async def test_one_folder_under_two_names_is_told(campus: Campus, tmp_path: Path) -> None:
    campus.folder.mkdir()
    (tmp_path / "cellar").symlink_to(campus.folder)
    cellar = Place(name="cellar", kind=PlaceKind.DIRECTORY, directory=str(tmp_path / "cellar"))
    marks = await a_coordinator(Disk(), campus.place, cellar)
    troubles = await marks.troubles(["attic", "cellar"])
    assert "the same folder as the place cellar" in troubles["attic"]
    assert "the same folder as the place attic" in troubles["cellar"]


def test_a_folder_where_files_have_one_name_only_gets_its_mark_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(source: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_link)
    mark = mark_of(tmp_path)
    assert mark
    assert mark_of(tmp_path) == mark
    assert [path.name for path in tmp_path.iterdir()] == ["mark"]
    (tmp_path / "mark").write_bytes(b"")  # a power cut
    assert mark_of(tmp_path)
