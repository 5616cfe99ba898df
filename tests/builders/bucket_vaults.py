"""The same of a vault in a bucket. Every action is another machine's, with a mirror of its own."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gpunion.vault.stores.bucket.jobs import Jobs
from gpunion.vault.stores.bucket.objects import Objects
from gpunion.vault.stores.bucket.store import BucketDesk
from gpunion.vault.vault import MirrorVault
from tests.builders.vaults import JOB, KEY, Cut, VaultWorld


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
class BucketWorld(VaultWorld):
    store: Any = field(default_factory=new_store)
    machines: Any = field(default_factory=itertools.count)
    left: int | None = None

    def die_after(self, operations: int | None) -> None:
        """Writes to the bucket count, those to mirrors do not."""
        self.left = operations

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
        return vault.keyed(KEY) if self.encrypted else vault

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
