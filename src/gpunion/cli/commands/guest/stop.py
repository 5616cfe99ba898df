"""`gpunion stop`: cancel a job."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.jobs.job_names import find_job, short

CONNECTS = True
JSON = "`{job, reasons, verdicts}` as POST /jobs/{id}/stop answers (docs/http-api.md)."
EXAMPLES = ("gpunion stop train",)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="its name, its id, or the beginning or end of it")


def run(arguments: argparse.Namespace, context: Context) -> int:
    campus = context.campus(arguments)
    answer = campus.stop(find_job(campus, arguments.job))
    if context.screen.as_json:
        context.screen.data(answer)
        return OK
    job = answer["job"]
    context.screen.line(f"{short(job['id'])} ({job['name']}) is {job['phase']}.")
    for reason in answer["reasons"]:
        context.screen.line(f"  {reason['sentence']}")
    return OK
