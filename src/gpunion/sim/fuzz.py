"""Many random campuses, one after another, every checker on. A failure prints the line that repeats it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gpunion.domain.counting import counted
from gpunion.sim.generate import random_scenario
from gpunion.sim.run import run_scenario
from gpunion.sim.tally import KINDS
from gpunion.sim.world import Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedOutcome:
    """What one seed came to; small, so that it can cross a process boundary."""

    seed: int
    digest: str
    troubles: dict[str, int]
    violations: tuple[str, ...] = ()
    invariants: tuple[int, ...] = ()
    jobs: int = 0
    moves: int = 0

    @property
    def ok(self) -> bool:
        return not self.violations

    @property
    def repeat(self) -> str:
        return f"gpunion sim fuzz --from {self.seed} --seeds 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzOutcome:
    seeds: tuple[SeedOutcome, ...]

    @property
    def failures(self) -> tuple[SeedOutcome, ...]:
        return tuple(seed for seed in self.seeds if not seed.ok)

    @property
    def ok(self) -> bool:
        return not self.failures

    @property
    def troubles(self) -> dict[str, int]:
        return {kind: sum(seed.troubles[kind] for seed in self.seeds) for kind in KINDS}

    def shown(self) -> dict[str, object]:
        return {
            "seeds": len(self.seeds),
            "jobs": sum(seed.jobs for seed in self.seeds),
            "moves": sum(seed.moves for seed in self.seeds),
            "troubles": self.troubles,
            "failures": [
                {"seed": seed.seed, "repeat": seed.repeat, "violations": list(seed.violations)}
                for seed in self.failures
            ],
            "digests": {str(seed.seed): seed.digest for seed in self.seeds},
        }


RunSeed = Callable[[int], SeedOutcome]
# Called once per finished seed, in order.
OnProgress = Callable[[SeedOutcome], None]
# The built-in `map`, or a pool's: the simulator itself starts no process.
Map = Callable[[RunSeed, Iterable[int]], Iterable[SeedOutcome]]


def fuzz(seeds: range, on_progress: OnProgress | None = None, in_order: Map = map) -> FuzzOutcome:
    outcomes = []
    for outcome in in_order(run_seed, seeds):
        outcomes.append(outcome)
        if on_progress is not None:
            on_progress(outcome)
    return FuzzOutcome(seeds=tuple(outcomes))


def run_seed(seed: int, parts: Parts | None = None) -> SeedOutcome:
    """A bug that raises is a failure like any other: it must be repeatable too."""
    try:
        outcome = run_scenario(random_scenario(seed), parts=parts)
    except Exception as error:
        return SeedOutcome(
            seed=seed,
            digest="",
            troubles=dict.fromkeys(KINDS, 0),
            violations=(f"{type(error).__name__}: {error}",),
        )
    return SeedOutcome(
        seed=seed,
        digest=outcome.digest,
        troubles=outcome.troubles,
        violations=tuple(str(violation) for violation in outcome.violations),
        invariants=tuple(violation.invariant for violation in outcome.violations),
        jobs=outcome.totals.jobs,
        moves=outcome.totals.moves,
    )


def failure_text(failure: SeedOutcome) -> str:
    return f"seed {failure.seed} failed; repeat with: {failure.repeat}\n  {failure.violations[0]}"


def summary(outcome: FuzzOutcome) -> str:
    counts = ", ".join(f"{kind} {count}" for kind, count in outcome.troubles.items())
    jobs, moves = sum(s.jobs for s in outcome.seeds), sum(s.moves for s in outcome.seeds)
    verdict = "no violation" if outcome.ok else f"{counted(len(outcome.failures), 'seed')} failed"
    return f"{len(outcome.seeds)} seeds, {jobs} jobs, {moves} moves: {verdict}\ntroubles: {counts}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gpunion.sim.fuzz", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)

    def tell(seed: SeedOutcome) -> None:
        if not seed.ok and not options.json:
            print(failure_text(seed), flush=True)

    outcome = fuzz(range(options.first, options.first + options.seeds), tell)
    print(json.dumps(outcome.shown(), indent=2) if options.json else summary(outcome))
    return 0 if outcome.ok else 1


if __name__ == "__main__":
    sys.exit(main())
