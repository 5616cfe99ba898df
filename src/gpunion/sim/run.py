"""Runs one scenario with every checker watching, and says what came of it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gpunion.sim.behaviour_digest import DecisionLog
from gpunion.sim.checkers.capacity import BooksBalance, MovingUnderItsCap, NothingPromisedTwice
from gpunion.sim.checkers.court import Checker, Court, Violation
from gpunion.sim.checkers.durability import DurableStaysDurable, OneIncarnation
from gpunion.sim.checkers.gangs import OneStepForAGang
from gpunion.sim.checkers.ownership import NoStartAgainstTheTerms, NothingAfterTheDeadline
from gpunion.sim.checkers.preemption import RoomIsMadeByTheRule
from gpunion.sim.checkers.protocol import (
    EnginesOwnAudit,
    EveryJobEnds,
    EveryJobEndsAsItShould,
    EverythingHasAReason,
    NothingAcknowledgedIsLost,
)
from gpunion.sim.checkers.windows import HardEndsHold, PromisesAreNotPutOff
from gpunion.sim.gpu_seconds import Ledger
from gpunion.sim.measure import JobMeasure, Measures, Totals
from gpunion.sim.observer import Watch
from gpunion.sim.scenario.file import read_scenario
from gpunion.sim.scenario.values import Scenario
from gpunion.sim.world import Parts, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    name: str
    seed: int
    ended_s: float
    events: int
    decisions: int
    jobs: dict[str, JobMeasure]
    totals: Totals
    troubles: dict[str, int]
    violations: tuple[Violation, ...]
    digest: str

    @property
    def ok(self) -> bool:
        return not self.violations

    def shown(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "name": self.name,
            "seed": self.seed,
            "ended_s": round(self.ended_s, 3),
            "events": self.events,
            "decisions": self.decisions,
            "jobs": {job_id: asdict(job) for job_id, job in self.jobs.items()},
            "totals": self.totals.shown(),
            "troubles": self.troubles,
            "violations": [asdict(violation) for violation in self.violations],
            "digest": self.digest,
        }


def run_scenario(
    scenario: Path | str | Scenario,
    seed: int | None = None,
    *,
    parts: Parts | None = None,
    prepare: Callable[[World], None] | None = None,
) -> Outcome:
    """The same scenario and seed give the same digest. `prepare` sees the world before it runs."""
    if not isinstance(scenario, Scenario):
        scenario = read_scenario(Path(scenario), seed)
    elif seed is not None:
        scenario = replace(scenario, seed=seed)
    world = World(scenario, parts)
    court, log, measures = Court(world), DecisionLog(), Measures(world)
    ledger = Ledger(world.kernel, world.machines)
    checkers: list[Checker] = [
        *(kind(court) for kind in CHECKERS),
        BooksBalance(court, ledger),
    ]
    watches: tuple[Watch, ...] = (log, ledger, measures, *checkers)
    for watch in watches:
        world.watch(watch)
    if prepare is not None:
        prepare(world)
    world.run()
    for checker in checkers:
        checker.at_the_end()
    measures.finish()
    totals = measures.totals(ledger.accounts())
    troubles = sorted(world.tally.happened().items())
    log.note(repr((sorted(measures.jobs.items()), totals, troubles)))
    return Outcome(
        name=scenario.name,
        seed=scenario.seed,
        ended_s=world.kernel.now_s,
        events=world.kernel.events,
        decisions=log.decisions,
        jobs={str(job_id): job for job_id, job in measures.jobs.items()},
        totals=totals,
        troubles=dict(world.tally.counts),
        violations=tuple(court.violations),
        digest=log.digest(),
    )


CHECKERS: tuple[type[Checker], ...] = (
    NothingAfterTheDeadline,
    NoStartAgainstTheTerms,
    OneIncarnation,
    DurableStaysDurable,
    NothingPromisedTwice,
    MovingUnderItsCap,
    NothingAcknowledgedIsLost,
    EverythingHasAReason,
    EveryJobEnds,
    EveryJobEndsAsItShould,
    EnginesOwnAudit,
    OneStepForAGang,
    RoomIsMadeByTheRule,
    HardEndsHold,
    PromisesAreNotPutOff,
)


def table(outcome: Outcome) -> str:
    """For people: what happened, what it cost, what went wrong."""
    totals = outcome.totals
    lines = [
        f"{outcome.name} (seed {outcome.seed}): {totals.succeeded} of {totals.jobs} jobs succeeded "
        f"in {outcome.ended_s:.0f} s of campus time",
        f"  moves {totals.moves}, downtime {totals.downtime_s:.1f} s, steps redone {totals.steps_redone}, "
        f"stall {totals.stall_s:.1f} s, shipped {totals.shipped_bytes / 1e6:.1f} MB, "
        f"utilisation {totals.utilisation:.1%}",
        "  troubles: "
        + (", ".join(f"{kind} {count}" for kind, count in outcome.troubles.items() if count) or "none"),
        f"  digest {outcome.digest}",
    ]
    lines += [str(violation) for violation in outcome.violations]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gpunion.sim.run", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    outcome = run_scenario(options.file, options.seed)
    print(json.dumps(outcome.shown(), indent=2) if options.json else table(outcome))
    return 0 if outcome.ok else 1


if __name__ == "__main__":
    sys.exit(main())
