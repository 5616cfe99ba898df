"""The same seed gives the same run in every process, whatever order its sets and dicts of strings have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 12


def digests(hash_seed: str) -> dict[str, str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "gpunion.sim.fuzz", "--seeds", str(SEEDS), "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)["digests"]
    return found


def test_digests_do_not_depend_on_the_hash_seed_of_the_process() -> None:
    one, other = digests("1"), digests("2")
    assert len(one) == SEEDS
    assert one == other
