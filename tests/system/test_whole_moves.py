"""The play of bench/moves, short: an unmodified container between two agents in network namespaces."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bench.moves.play import play

MOVES = 2


@pytest.mark.requires("podman", "criu", "netns")
def test_an_unmodified_container_moves_with_its_owners_word_and_loses_no_step(tmp_path: Path) -> None:
    with play(tmp_path / "campus") as campus:
        campus.begin(ballast_mib=1, every_s=2.0)
        moves = [campus.move() for _ in range(MOVES)]
        assert [move.lost_or_repeated for move in moves] == [0] * MOVES
        assert moves[0].source == moves[1].destination
        durable = [one for one in campus.checkpoints() if one["phase"] == "durable"]
        assert {checkpoint["tier"] for checkpoint in durable} == {"system"}
        assert campus.story().count("brought back whole on") == MOVES
        assert "stood still for" in campus.story()
        campus.lose()  # without notice: it goes on from the dump before
        counts = [count for count, _ in campus.book()]
        assert counts == list(range(1, len(counts) + 1))
    left = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True).stdout
    assert f"gm{os.getpid() % 100_000}br" not in left
