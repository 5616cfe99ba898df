"""`gpunion submit`: hand in a job, from flags or from a job file, and do not wait for it."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpunion.cli.context import Context
from gpunion.cli.exits import OK, USAGE, Trouble
from gpunion.cli.job_file import JOB_FILE, JobFile, read_job_file
from gpunion.cli.job_flags import add_job_flags, folder_of, job_request
from gpunion.cli.job_names import short
from gpunion.cli.submitting import submit

CONNECTS = True
TAKES_COMMAND = True
JSON = "`{job, reasons, verdicts}` as POST /jobs answers (docs/http-api.md)."
EXAMPLES = (
    "gpunion submit -- python train.py",
    f"gpunion submit {JOB_FILE} --gpus 2",
    "job=$(gpunion submit -q -- python train.py)",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help=f"a job file; without one and without a command, {JOB_FILE}",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print the job's id and nothing else")
    add_job_flags(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    file = _job_file(arguments, context)
    job = job_request(arguments, file)
    folder = folder_of(arguments, context.here, file)
    campus = context.campus(arguments)
    answer = submit(context, campus, job, folder, quiet=arguments.quiet)
    made = answer["job"]
    if arguments.quiet:
        context.screen.line(made["id"])
    elif context.screen.as_json:
        context.screen.data(answer)
    else:
        context.screen.line(f"{made['id']}  {made['name']}  {made['phase']}")
        for reason in answer["reasons"]:
            context.screen.line(f"  {reason['sentence']}")
        context.screen.line(f"Next: gpunion logs -f {short(made['id'])}, gpunion why {short(made['id'])}")
    return OK


def _job_file(arguments: argparse.Namespace, context: Context) -> JobFile | None:
    if arguments.file is not None:
        file = context.here / arguments.file
        if file.suffix != ".toml" and not file.exists():
            raise Trouble(
                f"there is no job file {arguments.file}",
                next_step=f"a command comes after --, like: gpunion submit -- {arguments.file}",
                code=USAGE,
            )
        return read_job_file(file)
    if arguments.command:
        return None
    return read_job_file(context.here / JOB_FILE)
