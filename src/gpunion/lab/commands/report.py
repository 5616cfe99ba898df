"""`gpunion sim report`: every policy on the reference campus, from public traces, as tables and pictures."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gpunion.cli.commands.study.sim_fuzz import workers
from gpunion.cli.context import Context
from gpunion.cli.exits import NOT_FOUND, OK, USAGE, Trouble
from gpunion.cli.extras import missing_extra
from gpunion.cli.output.progress import Progress
from gpunion.cli.output.screen import Table
from gpunion.cli.quantities import positive_count

if TYPE_CHECKING:
    from gpunion.lab.evaluation.sweep import Plan, Result, Sources

JSON = """what is written to results.json, less the single runs: `{plan, sources, took_s, departures, claims,
tables}`. A claim has `{name, wanted, got: {mean, ci95_half_width}, reached, note}`."""
EXAMPLES = (
    "gpunion sim report --traces ../shared/traces --out report/",
    "gpunion sim report --part windows --traces ../shared/traces --out report/",
    "gpunion sim report --owners demand.csv --jobs jobs.csv --out report/ --quick",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--traces", metavar="DIR", help="a folder with a trace of owners and one of jobs")
    parser.add_argument("--owners", metavar="CSV", help="when machines are wanted back (any known format)")
    parser.add_argument("--jobs", metavar="CSV", help="what guests run (any known format of jobs)")
    parser.add_argument("--out", default="report", metavar="DIR", help="where it is written (report)")
    parser.add_argument(
        "--part",
        choices=("moves", "windows"),
        default="moves",
        help="moves: what interruptions cost; windows: who waits how long, with windows and without",
    )
    parser.add_argument("--quick", action="store_true", help="one simulated day, the main table only")
    parser.add_argument("--full", action="store_true", help="with --part windows: everybody everywhere")
    parser.add_argument("--processes", type=positive_count, metavar="P", help="how many (one a processor)")


def run(arguments: argparse.Namespace, context: Context) -> int:
    try:
        from gpunion.lab.evaluation.sweep import FULL, QUICK, run_task, tasks
        from gpunion.lab.traces.rows import TraceError
    except ImportError as error:
        raise missing_extra(error, "sim") from error
    if arguments.part == "windows":
        return _windows(arguments, context)
    if arguments.full:
        raise Trouble("--full is for --part windows", next_step="leave it out", code=USAGE)
    plan = QUICK if arguments.quick else FULL
    began_s = time.monotonic()
    try:
        sources = _sources(arguments, context)
        todo = tasks(plan, sources)
        results: list[Result] = []
        with (
            Progress(context.screen, len(todo), "simulated campuses") as progress,
            workers(arguments.processes, len(todo)) as in_order,
        ):
            for result in in_order(run_task, todo):
                results.append(result)
                progress.step()
    except TraceError as error:
        raise Trouble(str(error), next_step=error.next_step, code=USAGE) from error
    return _conclude(
        context, context.here / arguments.out, plan, sources, results, time.monotonic() - began_s
    )


def _windows(arguments: argparse.Namespace, context: Context) -> int:
    from gpunion.lab.traces.rows import TraceError
    from gpunion.lab.windows import page
    from gpunion.lab.windows.plan import QUICK, Plan, lies, run_task, tasks
    from gpunion.lab.windows.plan import Result as WindowsResult

    plan = QUICK if arguments.quick else Plan(full=arguments.full)
    began_s = time.monotonic()
    results: list[WindowsResult] = []
    try:
        sources = _sources(arguments, context)
        todo = [*tasks(plan, sources), *lies(plan, sources)]
        with (
            Progress(context.screen, len(todo), "simulated campuses") as progress,
            workers(arguments.processes, len(todo)) as in_order,
        ):
            for result in in_order(run_task, todo):
                results.append(result)
                progress.step()
    except TraceError as error:
        raise Trouble(str(error), next_step=error.next_step, code=USAGE) from error
    took_s = time.monotonic() - began_s
    folder = context.here / arguments.out
    # First of all, so that nothing of it is lost, whatever becomes of the tables.
    _write_files(folder, {"runs.json": json.dumps([asdict(one) for one in results], default=str)})
    found = page.as_json(plan, sources, results, took_s)
    _write_files(
        folder,
        {
            "windows.json": json.dumps(found, indent=1, default=str),
            "windows.md": page.markdown(results, plan, took_s),
        },
    )
    if context.screen.as_json:
        context.screen.data({key: value for key, value in found.items() if key != "runs"})
        return OK
    head, body = page.claims_table(page.claims(results))
    context.screen.table(Table(columns=tuple(word.upper() for word in head), rows=list(body)))
    context.screen.line(f"{len(results)} simulated campuses. Read {folder}/windows.md")
    return OK


def _conclude(
    context: Context, folder: Path, plan: Plan, sources: Sources, results: Sequence[Result], took_s: float
) -> int:
    from gpunion.lab.evaluation.page import claims_table
    from gpunion.lab.evaluation.summary import as_json, claims

    found = as_json(plan, sources, results, took_s)
    _write(folder, found, results, plan)
    if context.screen.as_json:
        context.screen.data({key: value for key, value in found.items() if key != "runs"})
        return OK
    head, body = claims_table(claims(results))
    context.screen.table(Table(columns=tuple(word.upper() for word in head), rows=list(body)))
    context.screen.line(f"{found['departures']} departures, {len(results)} runs. Open {folder}/index.html")
    return OK


def _write(folder: Path, found: dict[str, object], results: Sequence[Result], plan: Plan) -> None:
    from gpunion.lab.evaluation.page import html, markdown, pictures

    files = {
        "results.json": json.dumps(found, indent=1, default=str),
        "tables.md": markdown(results, plan),
        "index.html": html(results, plan),
    }
    drawn = {f"{name.replace(' ', '-')}.svg": svg for name, svg in pictures(results).items()}
    _write_files(folder, files | drawn)


def _write_files(folder: Path, files: Mapping[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Trouble(f"cannot write {folder}: {error.strerror}", next_step="give another --out") from error


def _sources(arguments: argparse.Namespace, context: Context) -> Sources:
    """Named files first; else the folder's largest file that is of the kind, whatever it is called."""
    from gpunion.lab.evaluation.sources import largest
    from gpunion.lab.evaluation.sweep import Sources

    given = {kind: getattr(arguments, kind) for kind in ("owners", "jobs")}
    paths = {kind: context.here / name for kind, name in given.items() if name}
    for path in paths.values():
        if not path.exists():
            raise Trouble(f"there is no file {path}", next_step="check the name", code=NOT_FOUND)
    if len(paths) < len(given):
        if arguments.traces is None:
            raise Trouble(
                "which traces?", next_step="give --traces DIR, or --owners CSV and --jobs CSV", code=USAGE
            )
        folder = context.here / arguments.traces
        if not folder.is_dir():
            raise Trouble(f"there is no folder {folder}", next_step="check --traces", code=NOT_FOUND)
        for kind in given.keys() - paths.keys():
            paths[kind] = largest(folder, kind)
    return Sources(owners=paths["owners"], jobs=paths["jobs"])
