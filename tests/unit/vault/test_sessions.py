"""What a collector has to respect in a bucket, and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpunion.adapters.s3.layout import session_key
from gpunion.adapters.s3.objects import Found, Listed, Objects
from gpunion.adapters.s3.session import LEASE_S, Session, SessionEnded, living

pytestmark = pytest.mark.requires("s3")


@pytest.fixture
def store() -> Any:
    from obstore.store import MemoryStore

    return MemoryStore()


def test_the_time_that_a_machine_sleeps_counts_for_leases(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only CLOCK_BOOTTIME goes on in a suspend."""
    objects, clock = Objects(store, "memory"), time.clock_gettime
    before_s = objects.now_s()
    asleep_s = 1e6
    monkeypatch.setattr(
        time, "clock_gettime", lambda which: clock(which) + asleep_s * (which == time.CLOCK_BOOTTIME)
    )
    assert objects.now_s() - before_s >= asleep_s


class Ageing(Objects):
    """Shows what is `old` as of more than a lease ago, and etags made of the bytes as Amazon's are."""

    def __init__(self, store: Any) -> None:
        super().__init__(store, "memory")
        self.old: set[bytes] = set()
        self.meanwhile: Callable[[], None] = lambda: None

    def get(self, key: str) -> Found | None:
        found = super().get(key)
        if found is None:
            return None
        age_s = LEASE_S if found.data in self.old else 0.0
        return replace(found, etag=found.data.hex(), modified_s=found.modified_s - age_s)

    def list(self, prefix: str) -> list[Listed]:
        found = [
            replace(listed, modified_s=about.modified_s)
            for listed in super().list(prefix)
            if (about := self.get(listed.key)) is not None
        ]
        self.meanwhile()
        return found

    def replace(self, key: str, data: bytes, etag: str) -> bool:
        if data == b"ended":
            self.meanwhile()
        found = super().get(key)
        return found is not None and found.data.hex() == etag and super().replace(key, data, found.etag)


@pytest.mark.parametrize("proves_at_sight", [1, 2], ids=["after the list", "before it is ended"])
def test_a_session_that_proves_itself_while_a_collector_looks_is_not_ended(
    store: Any, proves_at_sight: int
) -> None:
    objects, session = Ageing(store), Session()
    session.begin(objects)
    found = objects.get(session_key(session.id))
    assert found is not None
    objects.old = {found.data}
    sights = 0

    def prove() -> None:
        nonlocal sights
        sights += 1
        if sights == proves_at_sight:
            session.prove(objects)

    objects.meanwhile = prove
    assert living(objects, objects.now_s() + 1) == {session.id}
    assert sights >= proves_at_sight
    session.prove(objects)


def test_a_session_that_says_nothing_for_a_lease_is_ended(store: Any) -> None:
    objects, session = Ageing(store), Session()
    session.begin(objects)
    found = objects.get(session_key(session.id))
    assert found is not None
    objects.old = {found.data}
    assert living(objects, objects.now_s() + 1) == set()
    with pytest.raises(SessionEnded):
        session.prove(objects)
