"""`gpunion submit`: hand in a job, from flags or from a job file, and do not wait for it."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.jobs.job_file import JOB_FILE, add_job_file, named_job_file
from gpunion.cli.jobs.job_flags import add_job_flags, folder_of, job_request
from gpunion.cli.jobs.job_names import short
from gpunion.cli.jobs.submitting import say_what_it_used_before, submit

CONNECTS = True
TAKES_COMMAND = True
JSON = """`{job, reasons, verdicts}` as POST /jobs answers (docs/http-api.md), and `left_out`: `{name, why}`
of what was not sent of the directory; why is `secret` or `virtual_environment`."""
EXAMPLES = (
    "gpunion submit -- python train.py",
    f"gpunion submit {JOB_FILE} --gpus 2",
    "job=$(gpunion submit -q -- python train.py)",
)


def configure(parser: argparse.ArgumentParser) -> None:
    add_job_file(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print the job's id and nothing else")
    add_job_flags(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    file = named_job_file(arguments, context.here, "submit")
    job = job_request(arguments, file)
    folder = folder_of(arguments, context.here, file)
    campus = context.campus(arguments)
    answer = submit(context, campus, job, folder, quiet=arguments.quiet, included=arguments.include)
    made = answer["job"]
    if arguments.quiet:
        context.screen.line(made["id"])
    elif context.screen.as_json:
        context.screen.data(answer)
    else:
        context.screen.line(f"{made['id']}  {made['name']}  {made['phase']}")
        for reason in answer["reasons"]:
            context.screen.line(f"  {reason['sentence']}")
        say_what_it_used_before(context.screen, answer)
        context.screen.line(f"Next: gpunion logs -f {short(made['id'])}, gpunion why {short(made['id'])}")
    return OK
