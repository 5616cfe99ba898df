"""Folders for checkpoints that are not mounted when a coordinator starts, and those that were emptied."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gpunion.adapters.files.mark import mark_of, why_not
from gpunion.adapters.files.patience import Patience
from gpunion.adapters.files.shared import open_own, open_shared
from gpunion.adapters.memory.store import Disk, MemoryStore
from gpunion.coordinator.marks import PlaceMarks
from gpunion.coordinator.problems import ApiError
from gpunion.domain.place import Place, PlaceKind
from gpunion.ports.vault import VaultUnavailable


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
    with pytest.raises(ApiError, match="no place bucket that is a folder"):
        await marks.accept("bucket")


async def test_a_folder_that_cannot_be_written_is_met_when_it_can(campus: Campus) -> None:
    campus.folder.write_text("in the way")
    marks = await campus.started()
    assert marks.folder("attic").mark == ""
    assert "could never write" in (await marks.troubles(["attic"]))["attic"]
    with pytest.raises(ApiError, match="cannot be written by the coordinator"):
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
