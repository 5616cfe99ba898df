"""Which of a job's places takes a save, when the first has no room or goes away in the middle."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from gpunion.agent.checkpoints.shipping import Sending, Sent, send
from gpunion.agent.run_records.notes import RunNote
from gpunion.ports.runtime import GuestPaths
from gpunion.vault.bounded import bounded_vault
from gpunion.vault.compression import Buffer
from gpunion.vault.detours import AVOID_S, Detours
from gpunion.vault.manifest import (
    CheckpointLabel,
    JobKey,
    Manifest,
    Vault,
    VaultDenied,
    VaultFault,
    VaultFull,
    VaultUnavailable,
)
from gpunion.vault.replicated import NamedVault, ReplicatedVault
from gpunion.vault.stores.folder.operations import FileOperations
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.timeout_guard import Patience
from gpunion.vault.transfer.ship import ship_directory
from tests.unit.agent.fakes import FakeWorld, ManualClock
from tests.unit.agent.values import JOB, RUN

FIRST, SECOND = "attic", "store"


class Disk(FileOperations):
    """One that fails to write once the test says so, as soon as blocks come."""

    def __init__(self) -> None:
        self.fault: OSError | None = None
        self.fails_at_once = False
        self.blocks = 0
        self.hangs: Callable[[], None] | None = None

    def write_new(self, path: Path, data: Buffer) -> None:
        fence = b"epoch" in bytes(data)
        self.blocks += not fence
        if self.hangs is not None and not fence:
            self.hangs()
        if self.fault is not None and (self.fails_at_once or not fence):
            raise self.fault
        super().write_new(path, data)


NO_ROOM = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
BROKEN = OSError(errno.EIO, os.strerror(errno.EIO))


@dataclass
class TwoPlaces:
    """An agent that saves one guest into real vaults, of which the disks may fail."""

    root: Path
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.disks = {FIRST: Disk(), SECOND: Disk()}
        self.vaults: dict[str, Vault] = {
            name: DirectoryVault(self.root / name, operations=disk) for name, disk in self.disks.items()
        }
        (self.root / "state").mkdir()
        (self.root / "state" / "weights").write_text("weights")
        self.world = replace(
            FakeWorld(self.root / "agent").world,
            open_vault=self.open,
            ship=self.ship,
            detours=Detours(self.clock.now_s),
        )

    def open(self, places: tuple[str, ...]) -> Vault:
        if len(places) == 1:
            return self.vaults[places[0]]
        named = [NamedVault(name, lambda name=name: self.vaults[name]) for name in places]  # type: ignore[misc]
        return ReplicatedVault(named, passed_over=self.world.detours.passed_over)

    def ship(
        self,
        directory: Path,
        label: CheckpointLabel,
        *,
        places: tuple[str, ...],
        key: JobKey | None,
        pace: Callable[[int], None],
        cancelled: Callable[[], bool],
        told: Callable[[int, int], None],
    ) -> Manifest:
        return ship_directory(self.open(places), directory, label, pace=pace, cancelled=cancelled)

    def save(self, step: int, *places: str) -> Sent:
        nowhere = self.root / "guest"
        paths = GuestPaths(
            root=nowhere,
            checkpoint_dir=nowhere,
            control_dir=nowhere,
            output_dir=nowhere,
            scratch_dir=nowhere,
            log_file=nowhere,
        )
        note = RunNote(
            run_id=RUN,
            job_id=JOB,
            epoch=1,
            gpu_indices=(),
            since_unix_s=0.0,
            paths=paths,
            places=places or (FIRST, SECOND),
        )
        label = CheckpointLabel(
            checkpoint_id=f"c{step}", job_id=JOB, epoch=1, step=step, progress=0.0, tier="app", created_s=0.0
        )
        sending = Sending(
            note=note,
            directory=self.root / "state",
            label=label,
            pace=lambda sent_bytes: None,
            cancelled=lambda: False,
            told=lambda done_bytes, total_bytes: None,
        )
        return send(self.world, sending)

    def ids(self, place: str) -> list[str]:
        return [manifest.checkpoint_id for manifest in self.vaults[place].manifests(JOB)]


@pytest.fixture
def places(tmp_path: Path) -> TwoPlaces:
    return TwoPlaces(tmp_path)


@pytest.mark.parametrize(
    ("fault", "at_once", "told"),
    [(NO_ROOM, False, "no space"), (NO_ROOM, True, "no space"), (BROKEN, False, "Input/output")],
)
def test_what_the_first_place_does_not_take_goes_into_the_next(
    places: TwoPlaces, fault: OSError, at_once: bool, told: str
) -> None:
    assert places.save(1).elsewhere == ""
    (places.root / "state" / "weights").write_text("other weights")
    places.disks[FIRST].fault, places.disks[FIRST].fails_at_once = fault, at_once
    sent = places.save(2)
    assert sent.elsewhere.startswith(f"{FIRST}: ")
    assert told in sent.elsewhere
    assert (places.ids(FIRST), places.ids(SECOND)) == (["c1"], ["c2"])


def test_a_place_without_room_is_not_tried_first_again_for_a_while(places: TwoPlaces) -> None:
    places.disks[FIRST].fault = NO_ROOM
    places.save(1)
    tried = places.disks[FIRST].blocks
    assert "no space" in places.save(2).elsewhere
    assert places.disks[FIRST].blocks == tried
    places.disks[FIRST].fault = None
    places.clock.at_s += AVOID_S
    assert places.save(3).elsewhere == ""
    assert (places.ids(FIRST), places.ids(SECOND)) == (["c3"], ["c1", "c2"])


def test_a_place_that_is_full_for_a_fence_too_keeps_nobody_from_the_others_and_is_named(
    places: TwoPlaces,
) -> None:
    places.disks[FIRST].fault, places.disks[FIRST].fails_at_once = NO_ROOM, True
    sent = places.save(1)
    assert places.ids(SECOND) == ["c1"]
    assert sent.elsewhere.startswith(f"{FIRST}: ")
    assert "no space" in sent.elsewhere


def test_when_no_place_has_room_each_is_named(places: TwoPlaces) -> None:
    for disk in places.disks.values():
        disk.fault = NO_ROOM
    with pytest.raises(VaultFull, match=f"{FIRST}: .*no space.*; {SECOND}: .*no space"):
        places.save(1)
    with pytest.raises(VaultFull, match="no space"):
        places.save(1, FIRST)


@pytest.mark.parametrize("fault", [VaultUnavailable("away"), VaultDenied("no key")])
def test_a_fault_of_a_job_with_one_place_is_told_as_it_is(places: TwoPlaces, fault: VaultFault) -> None:
    def ship(*arguments: object, **more: object) -> Manifest:
        raise fault

    places.world = replace(places.world, ship=ship)
    with pytest.raises(type(fault), match=str(fault)):
        places.save(1, FIRST)


def test_a_place_that_hangs_in_the_middle_of_an_upload_passes_it_to_the_next(places: TwoPlaces) -> None:
    wakes, clock = threading.Event(), ManualClock()
    patience = Patience(stall_s=0.01, now_s=clock.now_s)
    places.vaults[FIRST] = bounded_vault(places.vaults[FIRST], FIRST, patience)

    def hang() -> None:
        while not wakes.wait(0.001):
            clock.at_s += 60.0

    places.disks[FIRST].hangs = hang
    assert places.save(1).elsewhere.startswith(f"{FIRST}: {FIRST} has got nothing done for")
    assert places.ids(SECOND) == ["c1"]
    with pytest.raises(VaultUnavailable, match="has not answered what it was asked before"):
        places.ids(FIRST)
    places.disks[FIRST].hangs = None
    wakes.set()
    while True:  # as soon as what it owes is done
        with suppress(VaultUnavailable):
            assert places.ids(FIRST) == []
            break
    places.clock.at_s += AVOID_S
    assert places.save(2).elsewhere == ""
    assert places.ids(FIRST) == ["c2"]


def test_what_a_place_did_not_take_long_ago_is_no_news_to_who_starts_now() -> None:
    clock = ManualClock()
    detours = Detours(clock.now_s)
    detours.avoid(FIRST, "no space left")
    assert detours.why((FIRST, SECOND)) == f"{FIRST}: no space left"
    clock.at_s += AVOID_S
    assert detours.why((FIRST, SECOND)) == ""
