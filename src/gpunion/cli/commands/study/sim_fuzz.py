"""`gpunion sim fuzz`: many random campuses on all processors, looking for a broken promise."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpunion.cli.context import Context
from gpunion.cli.exits import ERROR, NOT_FOUND, OK, USAGE, Trouble
from gpunion.cli.extras import missing_extra
from gpunion.cli.output.progress import Progress
from gpunion.cli.output.screen import Table
from gpunion.cli.quantities import count, positive_count
from gpunion.cli.registry import LAB

if TYPE_CHECKING:
    from gpunion.sim.behaviour.digest import Behaviour
    from gpunion.sim.behaviour.record import BehaviourRecord, Compared
    from gpunion.sim.fuzz import FuzzOutcome

JSON = """`{seeds, jobs, moves, troubles, windows, failures, digests, digest}`: `troubles` counts each kind,
`windows` how often windows were over, ended hard, were promised and missed, `failures` has
`{seed, repeat, violations}`, `digests` one digest a seed, `digest` one over them all. With `--behaviour` also
`behaviour`, `{compared, differing}`: `differing` has `{run, digests, part, number, recorded, now}`, with the
first line that differs where the lines of that run were kept."""
EXAMPLES = (
    "gpunion sim fuzz --seeds 300",
    "gpunion sim fuzz --from 17 --seeds 1",
    "gpunion sim fuzz --behaviour tests/simulation/behaviour.txt",
)

# Small enough that the bar moves and a slow seed does not hold up many, large enough to cost nothing.
CHUNK = 2
SEEDS = 100
RECORDED_SEEDS = 300


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seeds",
        type=positive_count,
        metavar="N",
        help=f"how many campuses ({SEEDS}; all that are recorded)",
    )
    parser.add_argument("--from", dest="first", type=count, default=0, metavar="K", help="the first seed (0)")
    parser.add_argument(
        "--jobs", type=positive_count, metavar="P", help="how many processes (one a processor)"
    )
    behaviour = parser.add_mutually_exclusive_group()
    behaviour.add_argument(
        "--behaviour", type=Path, metavar="FILE", help="compare what happens with what was recorded there"
    )
    behaviour.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help=f"record what happens (on {RECORDED_SEEDS} campuses and the reference campus without --seeds)",
    )
    parser.add_argument(
        "--no-liars",
        action="store_false",
        dest="liars",
        help="no node lies, as in what is recorded; the campuses are the same otherwise",
    )
    parser.add_argument(
        "--no-urgent",
        action="store_false",
        dest="urgent",
        help="no urgent jobs beside the others, as in what is recorded; the same otherwise",
    )

    parser.add_argument(
        "--no-windows",
        action="store_false",
        dest="windows",
        help="no job runs in windows, as in what is recorded; the same otherwise",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    try:
        from gpunion.sim.behaviour.record import KEPT_RUNS
        from gpunion.sim.fuzz import SeedOutcome, failure_text, fuzz, run_seed
    except ImportError as error:
        raise missing_extra(error, "sim") from error
    recorded = None if arguments.behaviour is None else _recorded(context.here / arguments.behaviour)
    seeds = _seeds(arguments, recorded)
    run_one = functools.partial(
        run_seed, liars=arguments.liars, urgent=arguments.urgent, windows=arguments.windows
    )
    if recorded is not None:
        kept = frozenset(map(int, recorded.with_lines & set(map(str, recorded.seeds))))
        run_one = functools.partial(run_seed, behaviour_lines_of=kept)
    elif arguments.record is not None:
        run_one = functools.partial(run_seed, behaviour_lines_of=frozenset(seeds[:KEPT_RUNS]))
    with (
        Progress(context.screen, len(seeds), "seeds") as progress,
        workers(arguments.jobs, len(seeds), CHUNK) as in_order,
    ):

        def tell(seed: SeedOutcome) -> None:
            progress.step()
            if not seed.ok:
                progress.interrupt(failure_text(seed))

        outcome = fuzz(seeds, tell, in_order, run_one)
    if arguments.record is not None:
        _record(context, outcome, context.here / arguments.record, with_campuses=arguments.seeds is None)
    if recorded is None:
        return conclude(context, outcome)
    return conclude(context, outcome, _compared(outcome, recorded, with_campuses=arguments.seeds is None))


def _recorded(path: Path) -> BehaviourRecord:
    from gpunion.sim.behaviour.record import UnreadableRecord, read_record

    try:
        return read_record(path)
    except FileNotFoundError as error:
        record = f"gpunion sim fuzz --record {path.name}"
        raise Trouble(
            f"there is no record {path}", next_step=f"{record} makes one", code=NOT_FOUND
        ) from error
    except UnreadableRecord as error:
        raise Trouble(str(error), next_step="record it anew with --record", code=USAGE) from error


def _seeds(arguments: argparse.Namespace, recorded: BehaviourRecord | None) -> tuple[int, ...]:
    first = arguments.first
    usual = SEEDS if arguments.record is None else RECORDED_SEEDS
    wanted = range(first, first + (arguments.seeds or usual))
    if recorded is None:
        return tuple(wanted)
    known = tuple(seed for seed in recorded.seeds if seed >= first)
    if arguments.seeds is not None:
        known = tuple(seed for seed in known if seed in wanted)
    if not known:
        raise Trouble(
            "none of these seeds is in the record",
            next_step="leave out --from and --seeds to compare all that are",
            code=NOT_FOUND,
        )
    return known


def _record(context: Context, outcome: FuzzOutcome, path: Path, *, with_campuses: bool) -> None:
    from gpunion.sim.behaviour.record import write_record

    runs = {str(seed.seed): seed.behaviour for seed in outcome.seeds if seed.behaviour is not None}
    write_record(path, runs | (_campuses() if with_campuses else {}))
    context.screen.note(f"the behaviour of {len(runs)} seeds is recorded in {path}")


def _compared(outcome: FuzzOutcome, recorded: BehaviourRecord, *, with_campuses: bool) -> Compared:
    """A seed that raised has no behaviour, and is a failure already."""
    from gpunion.sim.behaviour.record import Compared

    runs = {str(seed.seed): seed.behaviour for seed in outcome.seeds if seed.behaviour is not None}
    if with_campuses:
        runs |= {name: found for name, found in _campuses().items() if name in recorded.runs}
    differing = (recorded.difference(name, behaviour) for name, behaviour in runs.items())
    return Compared(runs=len(runs), differing=tuple(found for found in differing if found is not None))


def _campuses() -> dict[str, Behaviour]:
    """The reference campus is part of the evaluation, which is loaded by name where it is installed."""
    everyday = import_module(f"{LAB}.reference.everyday")
    return {name: everyday.everyday_behaviour(load) for name, load in everyday.RECORDED_LOADS.items()}


def conclude(context: Context, outcome: FuzzOutcome, compared: Compared | None = None) -> int:
    if context.screen.as_json:
        shown = {**outcome.shown(), "digest": digest_of(outcome)}
        context.screen.data(shown if compared is None else {**shown, "behaviour": compared.shown()})
    else:
        _show(context, outcome)
        if compared is not None:
            context.screen.line(compared.text())
    return OK if outcome.ok and (compared is None or not compared.differing) else ERROR


def digest_of(outcome: FuzzOutcome) -> str:
    """One word for all seeds: two machines that agree on it agree on every event."""
    import hashlib

    text = "\n".join(f"{seed.seed} {seed.digest}" for seed in outcome.seeds)
    return hashlib.sha256(text.encode()).hexdigest()


def _show(context: Context, outcome: FuzzOutcome) -> None:
    rows = [[kind, str(number)] for kind, number in outcome.troubles.items()]
    context.screen.table(Table(columns=("TROUBLE", "TIMES"), rows=list(rows)))
    if any(outcome.pieces.values()):
        pieces = [[name, str(number)] for name, number in outcome.pieces.items()]
        context.screen.table(Table(columns=("OF JOBS IN WINDOWS", "TIMES"), rows=list(pieces)))
    jobs, moves = sum(seed.jobs for seed in outcome.seeds), sum(seed.moves for seed in outcome.seeds)
    verdict = "no violation" if outcome.ok else f"{len(outcome.failures)} SEED(S) FAILED"
    context.screen.line(f"{len(outcome.seeds)} seeds, {jobs} jobs, {moves} moves: {verdict}")
    context.screen.line(f"digest {digest_of(outcome)}")
    for failure in outcome.failures:
        context.screen.line(f"repeat with: {failure.repeat}")


@contextmanager
def workers(asked: int | None, tasks: int, chunk: int = 1) -> Iterator[Any]:
    """A `map` over processes. The simulator starts none itself; here is where its work is spread."""
    number = min(asked or len(os.sched_getaffinity(0)), tasks)
    if number == 1:
        yield map
        return
    import multiprocessing
    import signal

    # A fork would inherit locks of threads; a fresh interpreter shows that nothing depends on what ran.
    with multiprocessing.get_context("spawn").Pool(
        number, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    ) as pool:
        yield lambda run_one, all_of_them: pool.imap(run_one, all_of_them, chunksize=chunk)
