"""The same as `test_vault`, for a vault in a bucket: saves, cuts, collections, damage and restores.

A cut is the death of the process at any write to the bucket: the write has not been done, or it has been done
and nobody heard of it. Every action is another machine's, with a mirror of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.adapters.files.mirror import MirrorVault
from gpunion.adapters.s3.desk import BucketDesk
from gpunion.adapters.s3.jobs import Jobs
from gpunion.adapters.s3.objects import Objects
from gpunion.ports.vault import JobKey, VaultFault
from tests.property.test_vault import JOB, STATES, Action, Cut, World, files

pytestmark = [pytest.mark.no_cover, pytest.mark.requires("s3")]

# Mirrors sync what they write, which nothing here rests on.
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class CutObjects(Objects):
    """Dies at the n-th write, before it or after it."""

    def __init__(self, store: Any, world: BucketWorld) -> None:
        super().__init__(store, "memory")
        self._world = world

    def put(self, key: str, data: bytes) -> None:
        with self._world.may_die():
            super().put(key, data)

    def create(self, key: str, data: bytes) -> bool:
        with self._world.may_die():
            return super().create(key, data)

    def replace(self, key: str, data: bytes, etag: str) -> bool:
        with self._world.may_die():
            return super().replace(key, data, etag)

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            with self._world.may_die():
                super().delete([key])


def new_store() -> Any:
    from obstore.store import MemoryStore

    return MemoryStore()


@dataclass
class BucketWorld(World):
    store: Any = field(default_factory=new_store)
    machines: Any = field(default_factory=itertools.count)
    left: int | None = None

    @contextlib.contextmanager
    def may_die(self) -> Any:
        if self.left is not None:
            self.left -= 1
            if self.left == -1 and self.saves % 2:
                raise Cut
        yield
        if self.left is not None and self.left < 0:
            raise Cut

    def desk(self) -> BucketDesk:
        return BucketDesk(CutObjects(self.store, self), grace_s=0.0)

    def vault(self) -> Any:
        mirror = self.root / f"mirror-{next(self.machines)}"
        vault = MirrorVault(self.desk(), mirror, limit_bytes=10**9)
        return vault.keyed(self.key()) if self.encrypted else vault

    def key(self) -> JobKey:
        return JobKey(job_id=JOB, secret=bytes(32))

    def _tidy(self) -> bool:
        BucketDesk(Objects(self.store, "memory"), grace_s=0.0).collect_garbage()
        return False

    def damage(self, how: str, seed: int) -> None:
        objects = Objects(self.store, "memory")
        jobs = Jobs(objects)
        records = [jobs.readable(JOB, name) for name in jobs.read(JOB)[0].sealed]
        keys = sorted({copy.key for record in records if record is not None for copy in record.copies})
        if not keys:
            return
        key = random.Random(seed).choice(keys)
        found = objects.get(key)
        self.may_fail |= set(self.written)
        if found is None or how == "lost":
            objects.delete([key])
        elif how == "short":
            objects.put(key, found.data[: len(found.data) // 2])
        else:
            at = random.Random(seed).randrange(len(found.data))
            objects.put(key, found.data[:at] + bytes([found.data[at] ^ 0x10]) + found.data[at + 1 :])


actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(
        lambda content, lag, tidied: ("save", lambda world: world.save(content, lag=lag, tidied=tidied)),
        files,
        st.sampled_from([0, 0, 0, 1]),
        st.booleans(),
    ),
    st.just(("restart", World.restart)),
    st.just(("forget", World.forget)),
    st.just(("collect", World.collect)),
    st.builds(
        lambda how, seed: ("damage", lambda world: world.damage(how, seed)),
        st.sampled_from(["flipped", "short", "lost"]),
        st.integers(0, 1000),
    ),
)
cuts = st.one_of(st.none(), st.integers(min_value=0, max_value=25))


@settings(max_examples=30, deadline=None)
@given(script=st.lists(st.tuples(actions, cuts), max_size=10), encrypted=st.booleans())
def test_what_can_be_seen_can_be_restored_byte_for_byte_whatever_was_cut(
    script: list[tuple[Action, int | None]], encrypted: bool
) -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        world = BucketWorld(root=Path(folder), encrypted=encrypted)
        for (_, act), cut in script:
            world.left = cut
            with contextlib.suppress(Cut, VaultFault):
                act(world)
            world.left = None
            world.check()


@settings(max_examples=15, deadline=None)
@given(
    numbers=st.lists(st.integers(0, 11), min_size=1, max_size=10),
    tidy=st.sets(st.integers(0, 13)),
    encrypted=st.booleans(),
)
def test_a_training_that_is_saved_forgotten_and_collected_can_always_go_on(
    numbers: list[int], tidy: set[int], encrypted: bool
) -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        world = BucketWorld(root=Path(folder), encrypted=encrypted)
        for index, number in enumerate(numbers):
            world.save({"w": STATES[number], "v": STATES[-number]})
            if index in tidy:
                world.forget()
                world.collect()
            world.check()
