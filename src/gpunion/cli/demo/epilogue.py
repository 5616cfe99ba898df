"""What the play showed: moves, downtime, steps redone, bytes shipped, and whether the weights agree."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gpunion.cli.demo.audience import Audience, Job
from gpunion.domain.jobs.migration import UNANNOUNCED

WEIGHTS = "weights.npz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    cause: str
    source: str
    destination: str
    downtime_s: float
    steps_redone: int
    shipped_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    moves: tuple[Move, ...]
    weights_equal: bool
    weights_sha256: str
    elapsed_s: float

    @property
    def steps_lost_on_notice(self) -> int:
        return sum(move.steps_redone for move in self.moves if move.cause not in UNANNOUNCED)

    @property
    def good(self) -> bool:
        return self.weights_equal and self.steps_lost_on_notice == 0

    def plain(self) -> dict[str, Any]:
        return {
            "moves": len(self.moves),
            "causes": [move.cause for move in self.moves],
            "steps_lost_on_notice": self.steps_lost_on_notice,
            "steps_redone": sum(move.steps_redone for move in self.moves),
            "downtime_s": [round(move.downtime_s, 3) for move in self.moves],
            "shipped_bytes": sum(move.shipped_bytes for move in self.moves),
            "weights_equal": self.weights_equal,
            "weights_sha256": self.weights_sha256,
            "elapsed_s": round(self.elapsed_s, 1),
        }


def compare(vault_dir: Path, job: Job, reference: Path) -> tuple[bool, str]:
    """The job's output out of the vault, byte by byte against the uninterrupted run's arrays."""
    import numpy as np

    from gpunion.agent.compose.vault import fetch

    with tempfile.TemporaryDirectory(prefix="gpunion-demo-output-") as folder:
        target = Path(folder) / "output"
        fetch(vault_dir, job["id"], job["output"], target)
        found = next(target.rglob(WEIGHTS))
        with np.load(found) as ours, np.load(reference / WEIGHTS) as theirs:
            equal = sorted(ours.files) == sorted(theirs.files) and all(
                ours[name].tobytes() == theirs[name].tobytes() for name in ours.files
            )
        return equal, (reference / "weights.sha256").read_text().strip()


def outcome_of(job: Job, weights: tuple[bool, str]) -> Outcome:
    done = [migration for migration in job["migrations"] if migration["phase"] == "done"]
    moves = tuple(
        Move(
            cause=migration["cause"],
            source=migration["source_node"],
            destination=migration["destination"],
            downtime_s=float(migration["downtime_s"]),
            steps_redone=int(migration["steps_redone"]),
            shipped_bytes=int(migration["shipped_bytes"]),
        )
        for migration in done
    )
    equal, digest = weights
    return Outcome(moves=moves, weights_equal=equal, weights_sha256=digest, elapsed_s=_elapsed_s(job))


def _elapsed_s(job: Job) -> float:
    began, ended = (datetime.fromisoformat(job[key]) for key in ("submitted_at", "ended_at"))
    return (ended - began).total_seconds()


def show(outcome: Outcome, audience: Audience) -> None:
    audience.act("What it cost")
    audience.say(f"{'why':<16}{'from':<8}{'to':<8}{'stood still':>12}{'steps redone':>14}{'shipped':>12}")
    for move in outcome.moves:
        audience.say(
            f"{move.cause:<16}{move.source:<8}{move.destination:<8}{move.downtime_s:>10.1f} s"
            f"{move.steps_redone:>14}{move.shipped_bytes:>10} B"
        )
    verdict = "EQUAL BIT FOR BIT" if outcome.weights_equal else "DIFFERENT"
    audience.say("")
    audience.say(f"steps lost where there was a notice: {outcome.steps_lost_on_notice}")
    audience.say(f"final weights against an uninterrupted run of the same seed: {verdict}")
    audience.say(f"  sha256 {outcome.weights_sha256}")
