"""An image is fetched once, checked before the engine sees it, and never costs an owner one of theirs."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from gpunion.agent.machine.image_budget import ImageShelf, NoRoom
from gpunion.agent.machine.images import ImageKeeper, ImageTrouble
from gpunion.domain.ids import RunId
from gpunion.domain.image import Archive, Image, Parcel
from gpunion.ports.coordinator_link import LinkFault
from gpunion.ports.images import ImageFault
from gpunion.wire.image_archive import check_reduced, file_digest, reduce_archive
from tests.saved_images import a_layer, save_image
from tests.unit.agent.fakes import until

RUN = RunId("job-e1")


def never() -> bool:
    return False


class FakeEngine:
    """Implements `ports.images.Images`: ids and sizes."""

    def __init__(self) -> None:
        self.here: dict[str, int] = {}
        self.names: dict[str, str] = {}
        self.in_use: set[str] = set()
        self.loads = 0
        self.pulled: list[str] = []
        self.fault: ImageFault | None = None

    def find(self, image: Image) -> str | None:
        return image.digest if image.digest in self.here else None

    def called(self, name: str) -> str | None:
        return self.names.get(name)

    def size_bytes(self, image_id: str) -> int:
        return self.here[image_id]

    def load(self, archive: Path) -> None:
        if self.fault is not None:
            raise self.fault
        self.loads += 1
        self.here[check_reduced(archive)] = archive.stat().st_size

    def pull(self, image: Image) -> None:
        self.pulled.append(image.ref)
        self.here[image.digest] = 1

    def remove(self, image_id: str) -> bool:
        if image_id in self.in_use:
            return False
        self.here.pop(image_id, None)
        return True


class FakeSource:
    """Implements `ports.images.ArchiveSource`. `cuts`: where the connection breaks, in turn."""

    def __init__(self) -> None:
        self.archives: dict[str, bytes] = {}
        self.begun_at: list[int] = []
        self.cuts: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.trouble: OSError | None = None

    async def fetch_archive(self, digest: str, into: Path, reached: Callable[[int], None]) -> None:
        here = into.stat().st_size if into.exists() else 0
        self.begun_at.append(here)
        data = self.archives[digest]
        end = self.cuts.pop(0) if self.cuts else len(data)
        with open(into, "ab") as file:
            for at in range(here, end, 1000):
                file.write(data[at : min(at + 1000, end)])
                file.flush()
                reached(file.tell())
                await self.gate.wait()
                if self.trouble is not None:
                    raise self.trouble
        if end < len(data):
            raise LinkFault("the cable was pulled", temporary=True)


class Machine:
    def __init__(
        self,
        folder: Path,
        *,
        quota_bytes: int = 10**9,
        keep_free_bytes: int = 0,
        patience_s: float = 60.0,
    ) -> None:
        self.folder = folder
        self.engine = FakeEngine()
        self.source = FakeSource()
        self.now_s = 1000.0
        self.left = False
        self.shelf = ImageShelf(
            self.engine,
            folder / "images",
            quota_bytes,
            keep_free_bytes=keep_free_bytes,
            now_unix_s=lambda: self.now_s,
        )
        self.keeper = ImageKeeper(
            self.engine, self.source, self.shelf, fetch_wait_s=0.0, patience_s=patience_s
        )

    def an_image(self, marker: str) -> Parcel:
        save_image(self.folder / "saved.tar", a_layer({"marker": marker.encode() * 2000}))
        reduced = self.folder / f"{marker}.tar"
        digest = reduce_archive(self.folder / "saved.tar", reduced, None)
        archive = Archive(digest=file_digest(reduced), size_bytes=reduced.stat().st_size)
        self.source.archives[archive.digest] = reduced.read_bytes()
        return Parcel(image=Image(name=marker, digest=digest), archive=archive)

    async def have(self, parcel: Parcel) -> None:
        self.now_s += 1
        await self.keeper.have(parcel, RUN, never)

    def left_over(self) -> list[str]:
        return [file.name for file in (self.folder / "images").glob("*.part")]


@pytest.fixture
async def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


async def test_two_guests_that_need_one_image_wait_for_one_fetch(machine: Machine) -> None:
    parcel = machine.an_image("a")
    machine.source.gate.clear()
    both = [
        asyncio.create_task(machine.keeper.have(parcel, RunId(f"{name}-e1"), never)) for name in ("x", "y")
    ]
    await until(lambda: len(machine.keeper.preparing()) == 2 and machine.keeper.preparing()[0].done)
    told = machine.keeper.preparing()[0]
    assert told.what == "fetching its image"
    assert told.done is not None
    assert 0 < told.done < 1
    machine.source.gate.set()
    await asyncio.gather(*both)
    assert (machine.engine.loads, len(machine.source.begun_at)) == (1, 1)
    assert machine.keeper.preparing() == ()
    assert machine.left_over() == []
    await machine.have(parcel)  # it is here now
    assert machine.engine.loads == 1


async def test_a_fetch_that_was_cut_goes_on_where_it_was(machine: Machine) -> None:
    parcel = machine.an_image("a")
    machine.source.cuts = [3000, 5000]
    await machine.have(parcel)
    assert machine.source.begun_at == [0, 3000, 5000]
    assert machine.engine.here.keys() == {parcel.image.digest}


async def test_a_coordinator_that_stays_away_ends_the_wait_and_what_came_is_kept_for_the_next_try(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, patience_s=0.0)
    parcel = machine.an_image("a")
    machine.source.cuts = [3000, 3000]
    with pytest.raises(LinkFault, match="cable"):
        await machine.have(parcel)
    assert len(machine.left_over()) == 1
    machine.source.cuts = []
    await machine.have(parcel)
    assert machine.source.begun_at[-1] == 3000


async def test_bytes_that_are_not_the_image_never_reach_the_engine(machine: Machine) -> None:
    parcel = machine.an_image("a")
    assert parcel.archive is not None
    data = machine.source.archives[parcel.archive.digest]
    machine.source.archives[parcel.archive.digest] = data[:-1] + b"x"
    with pytest.raises(ImageTrouble, match="is not what it was called"):
        await machine.have(parcel)
    assert machine.engine.loads == 0
    assert machine.left_over() == []


async def test_an_archive_of_another_image_never_reaches_the_engine(machine: Machine) -> None:
    other = machine.an_image("other")
    claimed = Parcel(image=Image(name="torch", digest="0" * 64), archive=other.archive)
    with pytest.raises(ImageTrouble, match=f"holds sha256:{other.image.digest}, not sha256:0000"):
        await machine.have(claimed)
    assert machine.engine.loads == 0


async def test_a_disk_that_fills_up_leaves_nothing_behind_and_says_so(machine: Machine) -> None:
    parcel = machine.an_image("a")
    machine.source.trouble = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(NoRoom, match="the disk filled up while a was fetched"):
        await machine.have(parcel)
    assert machine.left_over() == []
    machine.source.trouble = None
    machine.engine.fault = ImageFault("no space left on device", no_room=True)
    with pytest.raises(NoRoom, match="the engine's disk filled up"):
        await machine.have(parcel)
    assert machine.left_over() == []


async def test_a_disk_without_room_is_not_even_begun_to_be_filled(tmp_path: Path) -> None:
    machine = Machine(tmp_path, keep_free_bytes=2**62)
    with pytest.raises(NoRoom, match="the disk lacks"):
        await machine.have(machine.an_image("a"))
    assert machine.source.begun_at == []


async def test_the_image_used_least_lately_goes_first_and_the_owners_never(tmp_path: Path) -> None:
    probe = Machine(tmp_path)
    images = {name: probe.an_image(name) for name in "abc"}
    size_bytes = max(p.archive.size_bytes for p in images.values() if p.archive is not None)
    machine = Machine(tmp_path, quota_bytes=2 * size_bytes)
    machine.source.archives = probe.source.archives
    machine.engine.here["the owner's"] = 10**9
    await machine.have(images["a"])
    await machine.have(images["b"])
    await machine.have(images["a"])
    await machine.have(images["c"])
    expected = {"the owner's", images["a"].image.digest, images["c"].image.digest}
    assert machine.engine.here.keys() == expected


async def test_an_image_in_use_or_about_to_be_is_not_removed(tmp_path: Path) -> None:
    probe = Machine(tmp_path)
    a, b = probe.an_image("a"), probe.an_image("b")
    assert a.archive is not None
    machine = Machine(tmp_path, quota_bytes=a.archive.size_bytes)
    machine.source.archives = probe.source.archives
    async with machine.keeper.held(a, RUN, never):
        with pytest.raises(NoRoom, match="quota for images"):
            await machine.have(b)
    machine.engine.in_use.add(a.image.digest)
    with pytest.raises(NoRoom, match="all are in use"):
        await machine.have(b)
    machine.engine.in_use.clear()
    await machine.have(b)
    assert machine.engine.here.keys() == {b.image.digest}


async def test_an_image_larger_than_the_quota_removes_nobody(tmp_path: Path) -> None:
    machine = Machine(tmp_path, quota_bytes=100)
    with pytest.raises(NoRoom, match="image_quota"):
        await machine.have(machine.an_image("a"))


async def test_a_start_that_is_called_off_stops_the_fetch_but_not_anothers(machine: Machine) -> None:
    parcel = machine.an_image("a")
    machine.source.gate.clear()
    off: list[bool] = []
    first = asyncio.create_task(machine.keeper.have(parcel, RunId("x-e1"), lambda: bool(off)))
    second = asyncio.create_task(machine.keeper.have(parcel, RunId("y-e1"), never))
    await until(lambda: len(machine.keeper.preparing()) == 2)
    off.append(True)
    with pytest.raises(ImageTrouble, match="ended before it began"):
        await first
    machine.source.gate.set()
    await second
    assert machine.engine.loads == 1


async def test_a_fetch_nobody_waits_for_any_more_stops(machine: Machine) -> None:
    parcel = machine.an_image("a")
    machine.source.gate.clear()
    off: list[bool] = []
    only = asyncio.create_task(machine.keeper.have(parcel, RUN, lambda: bool(off)))
    await until(lambda: machine.source.begun_at)
    off.append(True)
    with pytest.raises(ImageTrouble):
        await only
    machine.source.gate.set()
    await until(lambda: not machine.keeper.busy)
    assert machine.engine.loads == 0
    assert machine.left_over() == []


async def test_who_comes_when_a_fetch_has_just_stopped_gets_a_new_one(machine: Machine) -> None:
    parcel = machine.an_image("a")
    machine.source.gate.clear()
    off: list[bool] = []
    first = asyncio.create_task(machine.keeper.have(parcel, RunId("x-e1"), lambda: bool(off)))
    await until(lambda: machine.source.begun_at)
    off.append(True)
    with pytest.raises(ImageTrouble):
        await first
    second = asyncio.create_task(machine.keeper.have(parcel, RunId("y-e1"), never))
    machine.source.gate.set()
    await second
    assert machine.engine.here.keys() == {parcel.image.digest}


async def test_leaving_stops_what_is_being_fetched(machine: Machine) -> None:
    parcel = machine.an_image("a")
    machine.source.gate.clear()
    hint = asyncio.create_task(machine.keeper.have(parcel, None, lambda: machine.left))
    await until(lambda: machine.source.begun_at)
    machine.left = True
    leaving = asyncio.create_task(machine.keeper.purge())
    machine.source.gate.set()
    await leaving
    with pytest.raises(ImageTrouble):
        await hint
    assert machine.engine.loads == 0
    assert not (machine.folder / "images").exists()


async def test_without_an_archive_only_a_named_registry_is_asked(machine: Machine) -> None:
    bare = Image(name="torch:2.4", digest="1" * 64)
    machine.engine.names["torch:2.4"] = "2" * 64
    with pytest.raises(ImageTrouble, match=rf"no sha256:{'1' * 64} \(what it calls torch:2.4 is sha256:2222"):
        await machine.have(Parcel(image=bare))
    named = Image(name="campus.example/torch:2.4", digest="1" * 64)
    await machine.have(Parcel(image=named))
    assert machine.engine.pulled == [named.ref]


async def test_leaving_takes_along_what_was_brought_and_nothing_else(machine: Machine) -> None:
    machine.engine.here["the owner's"] = 1
    await machine.have(machine.an_image("a"))
    await machine.keeper.purge()
    assert machine.engine.here.keys() == {"the owner's"}
    assert not (machine.folder / "images").exists()
