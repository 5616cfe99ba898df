"""Hostile peers of real processes: each credential at each route, frames that lie, a hostile coordinator.

`python -m tests.attack.live` prints what was tried, what was refused and what got through; `--json FILE`
writes the same for machines. Exit 1 where anything got through.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.attack.coordinator import attack_agent
from tests.attack.ground import Ground
from tests.attack.routes import attack_routes
from tests.attack.score import Score
from tests.attack.sockets import attack_sockets
from tests.attack.wire import attack_wire


def attack(root: Path, *, frames: int, seed: int) -> Score:
    score = Score()
    attack_agent(root / "agent", score)
    _tell("a machine, by its coordinator", score)
    ground = Ground.open(root / "campus")
    try:
        attack_wire(ground, score, frames=frames, seed=seed)
        _tell("a coordinator, by frames and connections", score)
        attack_sockets(ground, score)
        _tell("a coordinator, by tunnels and streams", score)
        attack_routes(ground, score)
        for job_id in ground.victims.values():
            ground.scene.check_trail(job_id)
    finally:
        ground.close()
    return score


def _tell(what: str, score: Score) -> None:
    print(f"attacked: {what}; {score.tried.total()} attempts so far", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack.live", description=__doc__)
    parser.add_argument("--frames", type=int, default=2_000, help="made up by the hostile nodes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpunion-attack-") as root:
        score = attack(Path(root), frames=options.frames, seed=options.seed)
    print(score.table())
    print(f"in {time.monotonic() - began_s:.0f} s")
    if options.json is not None:
        options.json.write_text(json.dumps(score.shown(), indent=2) + "\n")
    return 1 if score.through else 0


if __name__ == "__main__":
    sys.exit(main())
