"""`gpunion sim run`: one scenario, every invariant watched."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from gpunion.cli.commands.study.scenarios import find_scenario
from gpunion.cli.context import Context
from gpunion.cli.exits import ERROR, NOT_FOUND, OK, USAGE, Trouble
from gpunion.cli.extras import missing_extra
from gpunion.cli.output.progress import Progress
from gpunion.cli.quantities import count
from gpunion.text import counted

if TYPE_CHECKING:
    from gpunion.domain.protocol.commit import Commit
    from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
    from gpunion.sim.observer import Watch

JSON = """`{name, seed, ended_s, events, decisions, jobs, totals, troubles, violations, digest}`.
The same scenario and seed give the same digest."""
EXAMPLES = ("gpunion sim run small", "gpunion sim run scenarios/storm.toml --seed 7 --json")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="a scenario file, or the name of one of `gpunion sim scenarios`"
    )
    parser.add_argument("--seed", type=count, metavar="K", help="instead of the one in the file")


def run(arguments: argparse.Namespace, context: Context) -> int:
    try:
        from gpunion.sim.run import run_scenario, table
        from gpunion.sim.scenario.file import read_scenario
        from gpunion.sim.scenario.toml_tables import ScenarioError
    except ImportError as error:
        raise missing_extra(error, "sim") from error
    path = find_scenario(arguments.file, context.here)
    if path is None:
        raise Trouble(
            f"there is no scenario {arguments.file}",
            next_step="gpunion sim scenarios lists those at hand",
            code=NOT_FOUND,
        )
    try:
        scenario = read_scenario(path, arguments.seed)
    except ScenarioError as error:
        raise Trouble(str(error), next_step=f"mend {path}", code=USAGE) from error
    with Progress(context.screen, math.ceil(scenario.horizon_s), "s of campus time at most") as progress:
        outcome = run_scenario(scenario, prepare=lambda world: world.watch(_watch(progress)))
    if context.screen.as_json:
        context.screen.data(outcome.shown())
    else:
        context.screen.line(table(outcome))
    if outcome.ok:
        return OK
    repeat = f"gpunion sim run {arguments.file} --seed {outcome.seed}"
    context.screen.note(f"{counted(len(outcome.violations), 'violation')}. Repeat with: {repeat}")
    return ERROR


def _watch(progress: Progress) -> Watch:
    """Sees the campus's time pass; changes nothing of what happens."""
    from gpunion.sim.observer import Watch

    class Pulse(Watch):
        def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
            progress.reach(int(commit.at_s))

    return Pulse()
