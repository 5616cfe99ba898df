"""What a collector has to respect in a bucket, and for how long."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gpunion.adapters.s3.objects import Objects

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
