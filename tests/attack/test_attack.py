"""A short pass of the live attacks; `make attack` makes a long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.coordinator import attack_agent
from tests.attack.ground import Ground
from tests.attack.routes import attack_routes
from tests.attack.score import Score
from tests.attack.sockets import attack_sockets
from tests.attack.wire import attack_wire

pytestmark = pytest.mark.no_cover

SHORT_EVERY = 7  # of the routes, and of the orders: these many are left out between two


def test_nothing_gets_through_to_a_campus(tmp_path: Path) -> None:
    score = Score()
    ground = Ground.open(tmp_path / "campus")
    try:
        attack_wire(ground, score, frames=100, every=SHORT_EVERY)
        attack_sockets(ground, score)
        attack_routes(ground, score, every=SHORT_EVERY)
    finally:
        ground.close()
    assert score.through == []
    assert score.tried.total() > 1_000
    assert score.refused.total() > 500


def test_nothing_gets_through_to_a_machine(tmp_path: Path) -> None:
    score = Score()
    attack_agent(tmp_path / "machine", score, every=SHORT_EVERY)
    assert score.through == []
    assert score.refused.total() > 10
