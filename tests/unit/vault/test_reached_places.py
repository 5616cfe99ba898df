"""Which of the named places a machine reaches, and that one which hangs keeps nobody from the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from gpunion.agent.checkpoints import location_watch as storage_watch
from gpunion.agent.checkpoints.location_watch import StorageWatch
from gpunion.domain.ids import NodeId
from gpunion.domain.protocol.commit import SavedAgent
from gpunion.domain.timing import Timing
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.locations import Place, PlaceKind, place_of
from gpunion.vault.manifest import Vault, VaultFault, VaultFull, VaultOutOfReach, VaultUnavailable
from gpunion.vault.mark import mark_of
from gpunion.vault.opener import PassedOver, Storage
from gpunion.vault.replicated import NamedVault, ReplicatedVault
from gpunion.vault.shared import open_own, open_shared
from gpunion.vault.storage import Opened
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.timeout_guard import Patience
from tests.builders import facts
from tests.builders.memory_vault import MemoryVault, a_manifest
from tests.unit.agent.fake_link import FakeLink
from tests.unit.agent.fakes import until

BUCKET = {"kind": "s3", "bucket": "vaults", "endpoint": "https://s3.campus", "credentials": "env:S3"}


class RoomyDesk:
    """None of these tests hands packed blocks over."""

    def __init__(self, check_room: Callable[[], None] = lambda: None) -> None:
        self.check_room = check_room


def opened(vault: Vault, check_room: Callable[[], None] = lambda: None) -> Opened:
    return Opened(vault, cast(VaultDesk, RoomyDesk(check_room)))


def says(fault: VaultFault) -> Callable[[], None]:
    def speak() -> None:
        raise fault

    return speak


def together(vaults: Sequence[tuple[str, Callable[[], Vault]]], passed_over: PassedOver) -> Vault:
    return ReplicatedVault([NamedVault(*named) for named in vaults], passed_over=passed_over)


class Machine:
    """One that reaches some places, as long as the test says so."""

    def __init__(self, tmp_path: Path, **own: Mapping[str, str]) -> None:
        self.reached = {"store"}
        self.opened: list[Place] = []
        self.memory = tmp_path / "places.json"
        self.campus = MemoryVault([])
        self.own = own
        self.room: Callable[[], None] = lambda: None
        self.campus_room: Callable[[], None] = lambda: None
        self.storage = self.restarted()

    def restarted(self) -> Storage:
        return Storage(
            open_campus=lambda mark: opened(self.campus, lambda: self.campus_room()),
            open_place=self._open,
            combine=together,
            memory=self.memory,
            own=self.own,
        )

    def _open(self, place: Place) -> Opened:
        if place.name not in self.reached:
            raise VaultUnavailable(f"{place.name} is not mounted")
        self.opened.append(place)
        return opened(MemoryVault([]), lambda: self.room())


def places(**tables: Any) -> tuple[Place, ...]:
    return tuple(place_of(name, table) for name, table in tables.items())


def test_a_machine_opens_what_it_was_told_of_also_after_a_restart_without_the_coordinator(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, store={"credentials": "file:/own"})
    with pytest.raises(VaultUnavailable, match="told of no place 'store'; it knows campus"):
        machine.storage.open(("store",))
    machine.storage.learn(places(store=BUCKET, attic={"kind": "directory", "directory": "/attic"}))
    found = machine.storage.open(("store",))
    assert machine.storage.open(("store",)) is found
    assert machine.storage.open(()) is machine.campus
    assert machine.restarted().open(("store",)) is not found
    assert {place.credentials for place in machine.opened} == {"file:/own"}
    assert machine.storage.doubtful() == ("campus", "attic", "store")
    assert machine.storage.doubtful(connected=False) == ("attic", "store")
    machine.storage.ask("store")
    with pytest.raises(VaultUnavailable, match="attic is not mounted"):
        machine.storage.ask("attic")


def test_a_place_in_which_nothing_can_begin_is_not_reached(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.storage.learn(places(store=BUCKET))
    machine.room = says(VaultFull("no room is left"))
    with pytest.raises(VaultFull, match="no room is left"):
        machine.storage.ask("store")
    machine.storage.open(("store",)).latest("job-1")  # what is there can be read


async def test_a_campus_vault_that_is_full_behind_the_coordinator_is_told_and_one_out_of_reach_is_as_it_was(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)
    station = PureAgent(
        node_id=NodeId("alpha"), facts=facts(), saved=SavedAgent(incarnation="i1"), timing=Timing()
    )
    watch = StorageWatch(storage=machine.storage, link=FakeLink(), station=station, greet_again=lambda: None)
    await watch.look()
    assert station.facts.reaches(())
    machine.campus_room = says(VaultOutOfReach("nobody answers"))
    await watch.look()
    assert station.facts.reaches(())  # nobody can be told otherwise, and it may be back before that
    machine.campus_room = says(VaultFull("no room is left"))
    await watch.look()
    assert station.facts.vault_trouble == "no room is left"
    assert not station.facts.reaches(())
    assert station.facts.reaches(("campus", "store")) == station.facts.reaches(("store",))
    machine.campus_room = says(VaultOutOfReach("nobody answers"))
    await watch.look()
    assert station.facts.vault_trouble == "no room is left"  # as it was
    machine.campus_room = lambda: None
    await watch.look(connected=False)
    assert station.facts.vault_trouble == "no room is left"
    await watch.look()
    assert station.facts.reaches(())
    assert station.facts.places_away == ()


async def test_what_a_machine_reaches_is_told_to_the_coordinator_when_it_changes(tmp_path: Path) -> None:
    machine, link = Machine(tmp_path), FakeLink()
    link.places = places(store=BUCKET, campus={"kind": "campus"})
    station = PureAgent(
        node_id=NodeId("alpha"), facts=facts(), saved=SavedAgent(incarnation="i1"), timing=Timing()
    )
    greeted: list[tuple[str, ...]] = []
    watch = StorageWatch(
        storage=machine.storage,
        link=link,
        station=station,
        greet_again=lambda: greeted.append(station.facts.places),
    )
    task = asyncio.create_task(watch.run())
    await until(lambda: greeted == [("store",)])
    task.cancel()
    machine.reached.clear()
    machine.storage.learn(places(store=BUCKET | {"bucket": "moved"}))
    await watch.look()
    await watch.look()
    assert greeted == [("store",), ()]
    assert station.facts.places_away == ("store",)
    assert watch.troubles == {"store": "store is not mounted"}


async def test_neither_a_place_that_breaks_nor_a_full_disk_ends_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_watch, "LOOK_EVERY_S", 0.0)
    machine, link = Machine(tmp_path / "no room, since this folder is not there"), FakeLink()
    link.places = places(attic={"kind": "directory", "directory": "/attic"}, store=BUCKET)
    station = PureAgent(
        node_id=NodeId("alpha"), facts=facts(), saved=SavedAgent(incarnation="i1"), timing=Timing()
    )
    ask, asked = machine.storage.ask, list[str]()

    def breaks(name: str) -> None:
        asked.append(name)
        if name == "attic":
            raise ZeroDivisionError("nobody thought of this")
        ask(name)

    machine.storage.ask = breaks  # type: ignore[method-assign]
    watch = StorageWatch(storage=machine.storage, link=link, station=station, greet_again=lambda: None)
    task = asyncio.create_task(watch.run())
    await until(lambda: asked.count("attic") > 1 and station.facts.places == ("store",))
    assert "nobody thought of this" in watch.troubles["attic"]
    assert machine.restarted().doubtful() == ("campus",)
    machine.memory.parent.mkdir()
    await until(lambda: machine.restarted().doubtful() == ("campus", "attic", "store"))
    met: list[str] = []

    def nonsense() -> Iterator[Place]:
        met.append("nonsense")
        raise ZeroDivisionError("nobody thought of this either")
        yield

    link.places = cast(Any, nonsense())
    await until(lambda: met)
    link.places = places(store=BUCKET)
    await until(lambda: machine.restarted().doubtful() == ("campus", "store"))
    task.cancel()


async def test_a_place_that_hangs_keeps_nobody_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_watch, "LOOK_LIMIT_S", 0.01)
    machine, answers = Machine(tmp_path), threading.Event()
    machine.storage.learn(places(attic={"kind": "directory", "directory": "/attic"}, store=BUCKET))
    machine.storage.ask("store")
    hanging = machine.storage.ask
    asked: list[str] = []

    def ask(name: str) -> None:
        asked.append(name)
        if name == "attic":
            answers.wait()
        else:
            hanging(name)

    machine.storage.ask = ask  # type: ignore[method-assign]
    station = PureAgent(
        node_id=NodeId("alpha"), facts=facts(), saved=SavedAgent(incarnation="i1"), timing=Timing()
    )
    watch = StorageWatch(storage=machine.storage, link=FakeLink(), station=station, greet_again=lambda: None)
    while list(station.facts.places) != ["store"]:
        await watch.look()
    assert "has not answered" in watch.troubles["attic"]
    assert asked.count("attic") == 1
    answers.set()
    while "attic" in watch.troubles:
        await watch.look()
    assert list(station.facts.places) == ["attic", "store"]


def test_a_first_place_that_hangs_passes_the_upload_to_the_next_and_is_not_asked_again_meanwhile() -> None:
    answers, begun, store = threading.Event(), list[str](), MemoryVault([])

    class Hanging(MemoryVault):
        def begin(self, job_id: str, epoch: int) -> None:
            begun.append(job_id)
            answers.wait()

    attic, patience = Hanging([]), Patience(limit_s=0.05)

    def an_upload() -> Vault:
        """On a busy machine even the place that does not hang may be late, and is asked again."""
        vault = ReplicatedVault(
            [NamedVault("attic", lambda: attic), NamedVault("store", lambda: store)], patience
        )
        while True:
            try:
                vault.begin("job-1", 1)
                return vault
            except VaultUnavailable:
                continue

    for checkpoint in ("c1", "c2"):
        an_upload().seal(a_manifest(checkpoint, 1))
    assert [manifest.checkpoint_id for manifest in store.sealed] == ["c1", "c2"]
    assert begun == ["job-1"]
    answers.set()
    while begun == ["job-1"]:
        an_upload()


def test_a_shared_folder_that_hangs_keeps_nobody_from_the_other_places(tmp_path: Path) -> None:
    opening, answers = threading.Event(), threading.Event()

    def hang(mark: str) -> Opened:
        opening.set()
        answers.wait()
        return opened(MemoryVault([]))

    storage = Storage(
        open_campus=hang,
        open_place=lambda place: opened(MemoryVault([])),
        combine=together,
        memory=tmp_path / "places.json",
    )
    storage.learn(places(store=BUCKET))
    stuck = threading.Thread(target=lambda: storage.open(()), daemon=True)
    stuck.start()
    opening.wait()
    other = threading.Thread(target=lambda: storage.ask("store"), daemon=True)
    other.start()
    other.join(30)
    assert not other.is_alive()
    answers.set()
    stuck.join()


def test_a_directory_that_is_not_mounted_any_more_is_out_of_reach(tmp_path: Path) -> None:
    root = tmp_path / "nfs"
    place = Place(name="nfs", kind=PlaceKind.DIRECTORY, directory=str(root), mark=mark_of(root))
    storage = Storage(
        open_campus=lambda mark: opened(DirectoryVault(tmp_path / "campus")),
        open_place=lambda place: opened(open_shared(place)),
        combine=together,
        memory=tmp_path / "places.json",
    )
    storage.learn([place])
    storage.ask("nfs")
    vault = storage.open(("nfs",))
    root.rename(tmp_path / "away")
    root.mkdir()
    with pytest.raises(VaultUnavailable, match="its mark is not there"):
        storage.ask("nfs")
    with pytest.raises(VaultUnavailable):  # of one that was opened before
        vault.begin("job-1", 1)
    assert list(root.iterdir()) == []


async def test_a_wrong_folder_for_the_campus_s_vault_is_told_and_takes_no_job_until_it_is_the_right_one(
    tmp_path: Path,
) -> None:
    right, here = tmp_path / "vault", tmp_path / "mount"
    campus = Place(name="campus", kind=PlaceKind.CAMPUS, mark=mark_of(right))
    storage = Storage(
        open_campus=lambda mark: opened(open_own(here, mark)),
        open_place=lambda place: opened(MemoryVault([])),
        combine=together,
        memory=tmp_path / "places.json",
        campus_folder=True,
    )
    station = PureAgent(
        node_id=NodeId("alpha"), facts=facts(), saved=SavedAgent(incarnation="i1"), timing=Timing()
    )
    greeted: list[str] = []
    link = FakeLink()
    watch = StorageWatch(
        storage=storage,
        link=link,
        station=station,
        greet_again=lambda: greeted.append(station.facts.vault_trouble),
    )
    first_guest = asyncio.create_task(asyncio.to_thread(lambda: storage.open(())))
    storage.learn([campus])
    with pytest.raises(VaultUnavailable, match="its mark is not there"):  # who waited for it to be told
        await first_guest
    await watch.look()
    assert 'vault = "campus" in agent.toml' in station.facts.vault_trouble
    assert not station.facts.reaches(())
    assert not here.exists()
    right.rename(here)
    await watch.look()
    assert station.facts.reaches(())
    storage.open(()).begin("job-1", 1)
    here.rename(right)
    await watch.look()
    assert [bool(trouble) for trouble in greeted] == [True, False, True]
    assert station.facts.places_away == ("campus",)


def test_the_campus_s_vault_is_opened_by_the_mark_that_was_told_also_after_a_restart(tmp_path: Path) -> None:
    marks: list[str] = []

    def open_campus(mark: str) -> Opened:
        marks.append(mark)
        return opened(MemoryVault([]))

    def a_storage() -> Storage:
        return Storage(
            open_campus=open_campus,
            open_place=lambda place: opened(MemoryVault([])),
            combine=together,
            memory=tmp_path / "places.json",
        )

    a_storage().open(())
    a_storage().learn(places(campus={"kind": "campus", "mark": "m1"}))
    a_storage().open(())
    assert marks == ["", "m1"]
