"""The same for a job in two places, a folder and a bucket: either may be away or be lost, and is copied to.

What was sealed is there as long as a place is that has it whole; what may lie in a place that is away is not
called lost, and never are other bytes given back than were saved.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.manifest import Manifest, Vault, VaultUnavailable
from gpunion.vault.stores.bucket.caretaker import BucketCaretaker
from gpunion.vault.stores.bucket.objects import Objects
from gpunion.vault.stores.folder.caretaker import DirectoryCaretaker
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.vault import MirrorVault
from tests.builders.bucket_vaults import BucketWorld, new_store
from tests.builders.two_places import BOTH, BUCKET, FOLDER, complete, replicated
from tests.builders.vaults import FILES, IN_MEMORY, JOB, KEY, Action, Script, does, play, scripts

pytestmark = [pytest.mark.no_cover, pytest.mark.requires("s3")]


@dataclass
class TwoPlaces(BucketWorld):
    """Cuts fall on writes to the bucket; those to the folder have a test of their own."""

    away: set[str] = field(default_factory=set)

    def desk_of(self, place: str) -> VaultDesk:
        if place in self.away:
            raise VaultUnavailable(f"{place} is away")
        return DirectoryDesk(self.folder()) if place == FOLDER else self.desk()

    def folder(self) -> DirectoryVault:
        return DirectoryVault(self.root / "vault", grace_s=0.0)

    def open(self, place: str) -> Vault:
        desk = self.desk_of(place)
        if place == FOLDER:
            return self.folder()
        return MirrorVault(desk, self.root / f"mirror-{next(self.machines)}", limit_bytes=10**9)

    def vault(self) -> Any:
        vault = replicated(BOTH, self.open, lambda place: place in self.away)
        return vault.keyed(KEY) if self.encrypted else vault

    def _tidy(self) -> bool:
        for place in set(BOTH) - self.away:
            self.desk_of(place).collect_garbage()
        return False

    def copy(self) -> None:
        complete(self.desk_of)

    def lose(self, place: str) -> None:
        """For good: what it alone had is gone, and only that."""
        other = BOTH[1 - BOTH.index(place)]
        self.away.clear()
        self.die_after(None)  # it is not the process that fails here
        if place == FOLDER:
            shutil.rmtree(self.root / "vault", ignore_errors=True)
        else:
            self.store = new_store()
        left = {manifest.checkpoint_id for manifest in self._labels(other)}
        self.promised &= left

    def back_up(self) -> None:
        shutil.rmtree(self.root / "backup", ignore_errors=True)
        if (self.root / "vault").exists():
            shutil.copytree(self.root / "vault", self.root / "backup")

    def roll_back(self) -> None:
        """The folder is as it was when it was backed up: what came since is only where else it was copied."""
        if not (self.root / "backup").exists():
            return
        self.die_after(None)
        away, self.away = self.away, set()
        shutil.rmtree(self.root / "vault", ignore_errors=True)
        shutil.copytree(self.root / "backup", self.root / "vault")
        self.promised &= {manifest.checkpoint_id for place in BOTH for manifest in self._labels(place)}
        self.away = away

    def _labels(self, place: str) -> tuple[Manifest, ...]:
        vault = self.open(place)
        return (vault.keyed(KEY) if self.encrypted else vault).manifests(JOB)

    def come_and_go(self, place: str) -> None:
        self.away ^= {place}

    def forget(self) -> None:
        if not self.away:
            self.copy()
        kept: set[str] = set()
        for place in set(BOTH) - self.away:
            kept |= {manifest.checkpoint_id for manifest in self._labels(place)[-2:]}
        self.promised &= kept | self._only_in(self.away)
        self.vault().forget(JOB, keep=2)

    def _only_in(self, places: set[str]) -> set[str]:
        away, self.away = self.away, set()
        found = {manifest.checkpoint_id for place in places for manifest in self._labels(place)}
        self.away = away
        return found

    def tear(self, place: str, seed: int) -> None:
        if place == BUCKET:
            self.damage("flipped", seed)
            return
        stored = sorted(self.folder().stored())
        if stored:
            path = random.Random(seed).choice(stored)
            path.write_bytes(path.read_bytes()[:-1] + b"?")
            self.may_fail |= set(self.written)

    def heal(self, place: str) -> None:
        """Takes from the other place what is damaged in this one, where that has it sound."""
        other = BOTH[1 - BOTH.index(place)]
        if self.away:
            return
        caretaker: Any = (
            DirectoryCaretaker(self.root / "vault")
            if place == FOLDER
            else BucketCaretaker(Objects(self.store, "memory"))
        )
        repaired = caretaker.repair(None, self.desk_of(other), lambda done, total: None)
        assert {lost.checkpoint_id for lost in repaired.set_aside} <= self.may_fail
        here = {manifest.checkpoint_id for manifest in self._labels(place)}
        aside = {lost.checkpoint_id for lost in repaired.set_aside}
        self.promised -= aside - {manifest.checkpoint_id for manifest in self._labels(other)}
        assert not aside & here

    def check(self) -> None:
        away, self.away = self.away, set()
        vault = self.vault()
        manifests = vault.manifests(JOB)
        assert self.promised <= {manifest.checkpoint_id for manifest in manifests}
        for manifest in manifests:
            self._check(self.vault(), manifest)
        self.away = away
        with contextlib.suppress(VaultUnavailable):
            for manifest in self.vault().manifests(JOB):
                with contextlib.suppress(VaultUnavailable):
                    self._check(self.vault(), manifest)


def somewhere(name: str) -> st.SearchStrategy[Action]:
    return st.builds(
        lambda place: (name, lambda world: getattr(world, name)(place)),
        st.sampled_from(BOTH),
    )


SAVES: st.SearchStrategy[Action] = st.builds(
    lambda content: ("save", lambda world: world.save(content)), FILES
)
TEARS: st.SearchStrategy[Action] = st.builds(
    lambda place, seed: ("tear", lambda world: world.tear(place, seed)),
    st.sampled_from(BOTH),
    st.integers(0, 1000),
)
CUTS = st.one_of(st.none(), st.none(), st.integers(min_value=0, max_value=25))
SCRIPTS = scripts(
    SAVES,
    does("copy"),
    does("copy"),
    does("restart"),
    does("forget"),
    does("collect"),
    somewhere("come_and_go"),
    somewhere("lose"),
    somewhere("heal"),
    does("back_up"),
    does("roll_back"),
    TEARS,
    cuts=CUTS,
    most=10,
)


@settings(max_examples=30, deadline=None)
@given(script=SCRIPTS, encrypted=st.booleans())
def test_whatever_place_is_away_lost_or_torn_a_sealed_checkpoint_s_bytes_come_back_or_a_fault(
    script: Script, encrypted: bool
) -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        play(TwoPlaces(root=Path(folder), encrypted=encrypted), script)


def test_a_torn_block_is_no_harm_while_the_replica_is_sound(tmp_path: Path) -> None:
    """Else the script above would show nothing about falling back."""
    world = TwoPlaces(root=tmp_path)
    world.save({"w": b"abc" * 100})
    world.copy()
    path = next(world.folder().stored())
    path.write_bytes(b"torn")
    world.check()
    world.heal(FOLDER)
    world.store = new_store()
    world.check()
