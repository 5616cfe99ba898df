"""`gpunion sim fuzz`: many random campuses on all processors, looking for a broken promise."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpunion.cli.context import Context
from gpunion.cli.exits import ERROR, OK
from gpunion.cli.extras import missing_extra
from gpunion.cli.progress import Progress
from gpunion.cli.quantities import count, positive_count
from gpunion.cli.screen import Table

if TYPE_CHECKING:
    from gpunion.sim.fuzz import FuzzOutcome

JSON = """`{seeds, jobs, moves, troubles, failures, digests, digest}`: `troubles` counts each kind,
`failures` has `{seed, repeat, violations}`, `digests` one digest a seed, `digest` one over them all."""
EXAMPLES = ("gpunion sim fuzz --seeds 300", "gpunion sim fuzz --from 17 --seeds 1")

# Small enough that the bar moves and a slow seed does not hold up many, large enough to cost nothing.
CHUNK = 2


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seeds", type=positive_count, default=100, metavar="N", help="how many campuses (100)"
    )
    parser.add_argument("--from", dest="first", type=count, default=0, metavar="K", help="the first seed (0)")
    parser.add_argument(
        "--jobs", type=positive_count, metavar="P", help="how many processes (one a processor)"
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    try:
        from gpunion.sim.fuzz import SeedOutcome, failure_text, fuzz
    except ImportError as error:
        raise missing_extra(error, "sim") from error
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    with (
        Progress(context.screen, len(seeds), "seeds") as progress,
        workers(arguments.jobs, len(seeds), CHUNK) as in_order,
    ):

        def tell(seed: SeedOutcome) -> None:
            progress.step()
            if not seed.ok:
                progress.interrupt(failure_text(seed))

        outcome = fuzz(seeds, tell, in_order)
    return conclude(context, outcome)


def conclude(context: Context, outcome: FuzzOutcome) -> int:
    if context.screen.as_json:
        context.screen.data({**outcome.shown(), "digest": digest_of(outcome)})
    else:
        _show(context, outcome)
    return OK if outcome.ok else ERROR


def digest_of(outcome: FuzzOutcome) -> str:
    """One word for all seeds: two machines that agree on it agree on every event."""
    import hashlib

    text = "\n".join(f"{seed.seed} {seed.digest}" for seed in outcome.seeds)
    return hashlib.sha256(text.encode()).hexdigest()


def _show(context: Context, outcome: FuzzOutcome) -> None:
    rows = [[kind, str(number)] for kind, number in outcome.troubles.items()]
    context.screen.table(Table(columns=("TROUBLE", "TIMES"), rows=list(rows)))
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
