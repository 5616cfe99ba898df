"""A vault and what must or may be in it, with scripts of what happens to it.

Used by the property tests of every kind of vault: saves, restarts, collections, damage, and the death of the
process in the middle of any of them.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
from hypothesis import strategies as st

from gpunion.vault.manifest import (
    BLOCK_SIZE_BYTES,
    CheckpointLabel,
    CorruptBlock,
    JobKey,
    Manifest,
    MissingBlock,
    VaultFault,
)
from gpunion.vault.manifests import block_names
from gpunion.vault.stores.folder.caretaker import DirectoryCaretaker
from gpunion.vault.stores.folder.operations import FileOperations
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.download import restore_directory
from gpunion.vault.transfer.ship import ship_directory

# A cut is the death of a process, not of a machine: what is synced here waits for no disk.
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
JOB = "job-1"
KEY = JobKey(job_id=JOB, secret=bytes(32))


def state(number: int) -> bytes:
    """Weights that move a little with every number: later ones are stored as differences from earlier."""
    start = numpy.random.default_rng(0).standard_normal(3000)
    return (start + 1e-5 * number).astype("f4").tobytes()


STATES = [state(number) for number in range(12)]
CONTENTS = [b"", b"a", b"z" * 5000, b"a" * BLOCK_SIZE_BYTES + b"b", *STATES]


class Cut(BaseException):
    """The process dies here."""


class CutOperations(FileOperations):
    """Dies at the n-th operation, after doing a part of it."""

    def __init__(self) -> None:
        self.left: int | None = None

    def _may_die(self) -> bool:
        if self.left is None:
            return False
        self.left -= 1
        return self.left < 0

    def write_new(self, path: Path, data: bytes | memoryview) -> None:
        if self._may_die():
            path.write_bytes(data[: len(data) // 2])
            raise Cut
        super().write_new(path, data)

    def rename(self, source: Path, target: Path) -> None:
        if self._may_die():
            raise Cut
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        if self._may_die():
            raise Cut
        super().unlink(path)

    def make_directory(self, path: Path, *, sync: bool = True) -> None:
        super().make_directory(path, sync=sync)
        if self._may_die():
            raise Cut

    def renew(self, path: Path) -> None:
        if self._may_die():
            raise Cut
        super().renew(path)

    def touch(self, path: Path) -> None:
        if self._may_die():
            raise Cut
        super().touch(path)

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        if self._may_die():
            raise Cut

    def sync_directories(self, paths: Collection[Path]) -> None:
        for path in paths:  # one after the other: a cut then falls at the same place every time
            self.sync_directory(path)


class FailingOperations(CutOperations):
    """Lives on: from the n-th operation on the disk answers with an error, once or for good, before it has
    done what was asked or after."""

    def __init__(self, error: int, *, done: bool, for_good: bool) -> None:
        super().__init__()
        self._error, self._done, self._for_good = error, done, for_good

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        failing = self._may_die()
        if failing and not self._for_good:
            self.left = None
        if failing and not self._done:
            raise OSError(self._error, os.strerror(self._error))
        yield
        if failing:
            raise OSError(self._error, os.strerror(self._error))

    def write_new(self, path: Path, data: bytes | memoryview) -> None:
        with self._answering():
            FileOperations.write_new(self, path, data)

    def rename(self, source: Path, target: Path) -> None:
        with self._answering():
            FileOperations.rename(self, source, target)

    def unlink(self, path: Path) -> None:
        with self._answering():
            FileOperations.unlink(self, path)

    def make_directory(self, path: Path, *, sync: bool = True) -> None:
        with self._answering():
            FileOperations.make_directory(self, path, sync=sync)

    def renew(self, path: Path) -> None:
        with self._answering():
            FileOperations.renew(self, path)

    def touch(self, path: Path) -> None:
        with self._answering():
            FileOperations.touch(self, path)

    def sync_directory(self, path: Path) -> None:
        with self._answering():
            FileOperations.sync_directory(self, path)

    def read_start(self, path: Path, limit_bytes: int) -> tuple[bytes, int]:
        with self._answering():
            return FileOperations.read_start(self, path, limit_bytes)


@dataclass
class VaultWorld:
    """The vault, and what we know must or may be in it."""

    root: Path
    epoch: int = 1
    saves: int = 0
    written: dict[str, dict[str, bytes]] = field(default_factory=dict)
    promised: set[str] = field(default_factory=set)
    may_fail: set[str] = field(default_factory=set)
    operations: CutOperations = field(default_factory=CutOperations)
    encrypted: bool = False

    def die_after(self, operations: int | None) -> None:
        """From now on; None: live on."""
        self.operations.left = operations

    def vault(self) -> DirectoryVault:
        vault = DirectoryVault(self.root / "vault", grace_s=0.0, operations=self.operations)
        return vault.keyed(KEY) if self.encrypted else vault

    def jump(self, days: int) -> None:
        """The file server's clock is set by so many days: all that is there has another age from now on."""
        for path in (self.root / "vault").rglob("*"):
            with contextlib.suppress(OSError):
                os.utime(path, (path.stat().st_atime, path.stat().st_mtime - days * 86_400))

    def save(
        self, files: dict[str, bytes], *, lag: int = 0, tidied: bool = False, jump_days: int = 0
    ) -> None:
        self.saves += 1
        name = f"c{self.saves}"
        source = self.root / name
        source.mkdir()
        for path, data in files.items():
            (source / path).write_bytes(data)
        self.written[name] = files
        label = CheckpointLabel(
            checkpoint_id=name,
            job_id=JOB,
            epoch=max(0, self.epoch - lag),
            step=self.saves,
            progress=0.0,
            tier="app",
            created_s=0.0,
        )

        # One worker: a cut then falls at the same place whenever the script is tried again.
        def meanwhile() -> bool:
            if jump_days:
                self.jump(jump_days)
            return self._tidy() if tidied else False

        ship_directory(self.vault(), source, label, cancelled=meanwhile, workers=1)
        self.promised.add(name)

    def _tidy(self) -> bool:
        """Another machine collects garbage in the middle of our upload."""
        DirectoryVault(self.root / "vault", grace_s=0.0).collect_garbage()
        return False

    def restart(self) -> None:
        self.epoch += 1
        self.vault().begin(JOB, self.epoch)

    def forget(self) -> None:
        kept = {manifest.checkpoint_id for manifest in self.vault().manifests(JOB)[-2:]}
        self.promised &= kept  # from here on, also when it is cut short
        self.vault().forget(JOB, keep=2)

    def collect(self) -> None:
        self.vault().collect_garbage()

    def damage(self, how: str, seed: int) -> None:
        """Of a block that a visible checkpoint needs; the next check finds it."""
        vault = self.vault()
        named = {
            vault.packing.name(name) for manifest in vault.manifests(JOB) for name in block_names(manifest)
        }
        needed = sorted(named)
        if not needed:
            return
        path = vault.blocks.path(random.Random(seed).choice(needed))
        stored = bytearray(path.read_bytes()) if path.exists() else bytearray()
        self.may_fail |= set(self.written)
        if how == "lost" or not stored:
            path.unlink(missing_ok=True)
        elif how == "short":
            path.write_bytes(stored[: len(stored) // 2])
        else:
            stored[random.Random(seed).randrange(len(stored))] ^= 0x10
            path.write_bytes(stored)

    def repair(self) -> None:
        """After it every visible checkpoint can be restored."""
        repaired = DirectoryCaretaker(self.root / "vault").repair(None, None, lambda done, total: None)
        lost = {unreadable.checkpoint_id for unreadable in repaired.set_aside}
        assert lost <= self.may_fail
        assert not repaired.in_use
        self.promised -= lost
        self.may_fail.clear()

    def check(self) -> None:
        """Every visible checkpoint has the very bytes that were saved; every promised one is visible."""
        vault = self.vault()
        manifests = vault.manifests(JOB)
        assert self.promised <= {manifest.checkpoint_id for manifest in manifests}
        assert vault.latest(JOB) == (manifests[-1] if manifests else None)
        for manifest in manifests:
            self._check(vault, manifest)

    def _check(self, vault: DirectoryVault, manifest: Manifest) -> None:
        target = self.root / "restored"
        try:
            restore_directory(vault, manifest, target)
        except (CorruptBlock, MissingBlock):
            if manifest.checkpoint_id not in self.may_fail:
                raise
            return
        found = {path.name: path.read_bytes() for path in target.iterdir()}
        assert found == self.written[manifest.checkpoint_id]


Action = tuple[str, Callable[[Any], None]]  # on a world of the kind that the script is for
Script = list[tuple[Action, int | None]]  # each with the operation at which the process dies, or none

FILES = st.dictionaries(st.sampled_from(["w", "v", "u"]), st.sampled_from(CONTENTS), max_size=3)
SAVES: st.SearchStrategy[Action] = st.builds(
    lambda content, lag, tidied: ("save", lambda world: world.save(content, lag=lag, tidied=tidied)),
    FILES,
    st.sampled_from([0, 0, 0, 1]),
    st.booleans(),
)
# A clock that is set in the middle of an upload, beside a collector.
UNTIMELY_SAVES: st.SearchStrategy[Action] = st.builds(
    lambda content, days: (
        "untimely save",
        lambda world: world.save(content, tidied=True, jump_days=days),
    ),
    FILES,
    st.sampled_from([-3, 3]),
)
DAMAGES: st.SearchStrategy[Action] = st.builds(
    lambda how, seed: ("damage", lambda world: world.damage(how, seed)),
    st.sampled_from(["flipped", "short", "lost"]),
    st.integers(0, 1000),
)


def does(name: str) -> st.SearchStrategy[Action]:
    """What the world has under this name, without more to say."""
    return st.just((name, lambda world: getattr(world, name)()))


def scripts(
    *actions: st.SearchStrategy[Action], cuts: st.SearchStrategy[int | None], most: int
) -> st.SearchStrategy[Script]:
    return st.lists(st.tuples(st.one_of(*actions), cuts), max_size=most)


def play(world: VaultWorld, script: Script) -> None:
    """After each line, whatever became of it, all is as promised."""
    for (_, act), cut in script:
        world.die_after(cut)
        with contextlib.suppress(Cut, VaultFault):
            act(world)
        world.die_after(None)
        world.check()


def train(world: VaultWorld, numbers: list[int], tidy: set[int]) -> None:
    """Long series of differences, whose bases were forgotten long ago."""
    for index, number in enumerate(numbers):
        world.save({"w": STATES[number], "v": STATES[-number]})
        if index in tidy:
            world.forget()
            world.collect()
        world.check()
