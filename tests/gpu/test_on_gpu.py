"""The real thing, where there is one. Elsewhere it is skipped by name and never pretended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.run_on_gpu import show

pytestmark = [pytest.mark.requires("nvidia"), pytest.mark.timeout(600)]


def test_a_guest_is_seen_yields_to_the_owner_and_leaves_the_gpu_when_killed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = show(tmp_path)
    assert all(found["verdicts"].values()), found


def test_a_guest_is_parked_while_the_owner_computes_and_goes_on_as_the_same_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = show(tmp_path, park=True)
    assert all(found["verdicts"].values()), found
