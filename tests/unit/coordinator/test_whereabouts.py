"""Where a job's checkpoints lie: a place that is silent is said to be, and keeps nobody from the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from gpunion.adapters.memory_database import MemoryStore
from gpunion.coordinator import compose
from gpunion.coordinator.locations.configured import places_from
from gpunion.coordinator.locations.node_disks import Keepers
from gpunion.coordinator.settings import Settings
from gpunion.coordinator.whereabouts import Whereabouts
from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.locations import Place, PlaceKind
from gpunion.vault.manifest import Vault, VaultDenied, VaultUnavailable
from gpunion.vault.storage import Opened
from gpunion.vault.timeout_guard import Patience
from tests.builders.memory_vault import MemoryVault, a_manifest
from tests.builders.values import a_job

NAMES = ("store", "silent", "denied")


def holding(*checkpoints: str) -> MemoryVault:
    return MemoryVault([], sealed=[a_manifest(name, 1) for name in checkpoints])


async def test_places_that_do_not_say_are_unknown_and_the_others_answer() -> None:
    answers = threading.Event()

    def open_vault(names: tuple[str, ...]) -> Vault:
        (name,) = names
        if name == "silent":
            answers.wait()
        if name == "denied":
            raise VaultDenied("no key")
        return holding("c1", "c2") if name == "store" else holding("c2")

    whereabouts = Whereabouts(open_vault, Patience(0.05).ask)
    job = a_job("job-1")
    job = replace(job, spec=replace(job.spec, places=NAMES))
    found = await whereabouts.of(job)
    while "store" in found.unknown:  # late on a busy machine, which it says
        found = await whereabouts.of(job)
    assert found.places == {"c1": ["store"], "c2": ["store"]}
    assert found.unknown == ["silent", "denied"]
    answers.set()
    while {"silent", "store"} & {*found.unknown}:
        found = await whereabouts.of(job)
    assert found.places == {"c1": ["store"], "c2": ["store", "silent"]}
    assert found.unknown == ["denied"]


def test_a_bucket_that_is_slow_to_open_keeps_nobody_from_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, answers, opened = threading.Event(), threading.Event(), list[str]()

    def open_place(place: Place, environment: Mapping[str, str], mirrors: Path, limit_bytes: int) -> Opened:
        opened.append(place.name)
        if place.name == "silent":
            opening.set()
            answers.wait()
        return Opened(holding("c1"), cast(VaultDesk, None))

    monkeypatch.setattr(compose, "open_place", open_place)
    table = {"kind": "s3", "bucket": "vaults", "credentials": "env:S3"}
    places = places_from({"silent": table, "store": table}, "store")
    settings = Settings(data_dir=tmp_path)
    store = MemoryStore()
    keepers = Keepers(store, nodes=dict, now_s=lambda: 0.0)
    open_vault = compose._vault_opener(settings, places, compose._marks(settings, places, store), keepers)
    stuck = started(lambda: open_vault(("silent",)))
    opening.wait()
    other = started(lambda: open_vault(("store",)))
    other.join(30)
    assert not other.is_alive()
    assert open_vault(("store",)) is open_vault(("store",))
    assert opened == ["silent", "store"]
    answers.set()
    stuck.join()


def test_a_vault_whose_folder_hangs_keeps_no_request_waiting_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked = threading.Event(), list[str]()

    def hang(place: Place) -> None:
        asked.append(place.name)
        answers.wait()

    monkeypatch.setattr(compose, "check", hang)
    monkeypatch.setattr(compose, "DESK_STALL_S", 0.01)
    own = Place(name="campus", kind=PlaceKind.CAMPUS, directory=str(tmp_path / "vault"))
    open_desk = compose._desk_opener(Settings(data_dir=tmp_path), lambda: own)
    for told in ("has got nothing done for", "has not answered what it was asked before"):
        with pytest.raises(VaultUnavailable, match=told):
            open_desk()
    assert asked == ["campus"]
    answers.set()
    while True:
        with suppress(VaultUnavailable):  # late on a busy machine, which it says
            assert open_desk().latest("job-1") is None
            break


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
