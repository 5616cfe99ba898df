"""Many random campuses, one after another, every checker on. A failure prints the line that repeats it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from gpunion.domain.protocol.commit import Commit
from gpunion.domain.protocol.effects import SendOrder
from gpunion.domain.protocol.orders import SetWindow, StartRun
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.policy.policies import LIVE, Policies
from gpunion.policy.windows.policy import WindowPolicy
from gpunion.policy.windows.turns import TurnBounds
from gpunion.sim.behaviour.digest import Behaviour, BehaviourWatch
from gpunion.sim.fault_points import KINDS
from gpunion.sim.observer import Watch
from gpunion.sim.run import run_scenario
from gpunion.sim.scenario.generate import URGENT_GPUS_A_USER, random_scenario
from gpunion.sim.scenario.in_windows import WINDOW_TURN_S
from gpunion.sim.world import Parts, World
from gpunion.text import counted


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
    behaviour: Behaviour | None = None  # where it was asked for
    liars: bool = True  # whether any node was allowed to lie
    urgent: bool = True  # whether urgent jobs were handed in beside the others
    windows: bool = True  # whether some jobs ran in windows
    pieces: dict[str, int] = field(default_factory=dict)  # how often its rules were put to the test

    @property
    def ok(self) -> bool:
        return not self.violations

    @property
    def repeat(self) -> str:
        without = ("" if self.liars else " --no-liars") + ("" if self.urgent else " --no-urgent")
        without += "" if self.windows else " --no-windows"
        return f"gpunion sim fuzz --from {self.seed} --seeds 1{without}"


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

    @property
    def pieces(self) -> dict[str, int]:
        names = {name: None for seed in self.seeds for name in seed.pieces}
        return {name: sum(seed.pieces.get(name, 0) for seed in self.seeds) for name in names}

    def shown(self) -> dict[str, object]:
        return {
            "seeds": len(self.seeds),
            "jobs": sum(seed.jobs for seed in self.seeds),
            "moves": sum(seed.moves for seed in self.seeds),
            "troubles": self.troubles,
            "windows": self.pieces,
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


def fuzz(
    seeds: Iterable[int],
    on_progress: OnProgress | None = None,
    in_order: Map = map,
    run: RunSeed | None = None,
) -> FuzzOutcome:
    outcomes = []
    for outcome in in_order(run or run_seed, seeds):
        outcomes.append(outcome)
        if on_progress is not None:
            on_progress(outcome)
    return FuzzOutcome(seeds=tuple(outcomes))


def run_seed(
    seed: int,
    parts: Parts | None = None,
    behaviour_lines_of: Container[int] | None = None,
    *,
    liars: bool = True,
    urgent: bool = True,
    windows: bool = True,
) -> SeedOutcome:
    """A bug that raises is a failure like any other: it must be repeatable too. The digests of its behaviour
    are made where `behaviour_lines_of` is given, and the lines they are of kept for the seeds in it.

    Then nobody lies: lies are drawn from what frames consist of, so any new field would be another behaviour.
    Nor are there urgent jobs, or any that run in windows: what is recorded tells of all the other rules.
    """
    liars = liars and behaviour_lines_of is None
    urgent = urgent and behaviour_lines_of is None
    windows = windows and behaviour_lines_of is None
    if parts is None and (urgent or windows):
        parts = Parts(policies=policies(urgent=urgent, windows=windows))
    watches: list[BehaviourWatch] = []
    pieces = PieceCounts()

    def prepare(world: World) -> None:
        world.watch(pieces)
        if behaviour_lines_of is not None:
            watches.append(BehaviourWatch(world))
            world.watch(watches[0])

    try:
        outcome = run_scenario(
            random_scenario(seed, liars=liars, urgent=urgent, windows=windows), parts=parts, prepare=prepare
        )
    except Exception as error:
        return replace(_raised(seed, error), liars=liars, urgent=urgent, windows=windows)
    totals, behaviour = outcome.totals, None
    if behaviour_lines_of is not None:
        behaviour = watches[0].behaviour(
            jobs=totals.jobs,
            moves=totals.moves,
            troubles={kind: count for kind, count in outcome.troubles.items() if kind != "lie"},
            keep_lines=seed in behaviour_lines_of,
        )
    return SeedOutcome(
        seed=seed,
        digest=outcome.digest,
        troubles=outcome.troubles,
        violations=tuple(str(violation) for violation in outcome.violations),
        invariants=tuple(violation.invariant for violation in outcome.violations),
        jobs=totals.jobs,
        moves=totals.moves,
        behaviour=behaviour,
        liars=liars,
        urgent=urgent,
        windows=windows,
        pieces=dict(pieces.counts),
    )


def _raised(seed: int, error: Exception) -> SeedOutcome:
    violations = (f"{type(error).__name__}: {error}",)
    return SeedOutcome(seed=seed, digest="", troubles=dict.fromkeys(KINDS, 0), violations=violations)


class PieceCounts(Watch):
    """How often the rules of windows were put to the test."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(("windows", "hard ends", "promises", "misses"), 0)

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        for effect in commit.decision.effects:
            order = effect.order if isinstance(effect, SendOrder) else None
            if isinstance(order, StartRun | SetWindow) and order.subjob is not None:
                self.counts["hard ends"] += order.subjob.hard
        for reason in commit.decision.reasons:
            name = _COUNTED.get(reason.why)
            if name is not None:
                self.counts[name] += 1


_COUNTED = {
    Why.WINDOW_OVER: "windows",
    Why.PLACE_PROMISED: "promises",
    Why.WINDOW_MISSED: "misses",
    Why.WINDOW_SAVE_LOST: "misses",
}


def policies(*, urgent: bool, windows: bool) -> Policies:
    policies = replace(LIVE, high_gpus_a_user=URGENT_GPUS_A_USER) if urgent else LIVE
    if not windows:
        return policies
    least_s, most_s = WINDOW_TURN_S
    return replace(policies, windows=WindowPolicy(bounds=TurnBounds(least_s=least_s, most_s=most_s)))


def failure_text(failure: SeedOutcome) -> str:
    return f"seed {failure.seed} failed; repeat with: {failure.repeat}\n  {failure.violations[0]}"


def summary(outcome: FuzzOutcome) -> str:
    counts = ", ".join(f"{kind} {count}" for kind, count in outcome.troubles.items())
    jobs, moves = sum(s.jobs for s in outcome.seeds), sum(s.moves for s in outcome.seeds)
    verdict = "no violation" if outcome.ok else f"{counted(len(outcome.failures), 'seed')} failed"
    tried = ", ".join(f"{name} {count}" for name, count in outcome.pieces.items())
    told = f"{len(outcome.seeds)} seeds, {jobs} jobs, {moves} moves: {verdict}\ntroubles: {counts}"
    return f"{told}\npieces: {tried}" if tried else told


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gpunion.sim.fuzz", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--no-liars", action="store_false", dest="liars")
    parser.add_argument("--no-urgent", action="store_false", dest="urgent")
    parser.add_argument("--no-windows", action="store_false", dest="windows")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)

    def tell(seed: SeedOutcome) -> None:
        if not seed.ok and not options.json:
            print(failure_text(seed), flush=True)

    run_one = partial(run_seed, liars=options.liars, urgent=options.urgent, windows=options.windows)
    outcome = fuzz(range(options.first, options.first + options.seeds), tell, run=run_one)
    print(json.dumps(outcome.shown(), indent=2) if options.json else summary(outcome))
    return 0 if outcome.ok else 1


if __name__ == "__main__":
    sys.exit(main())
