"""`gpunion run`: as if the GPU were here."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from gpunion.cli.campus import Campus, Json
from gpunion.cli.commands.guest.cp import told
from gpunion.cli.connection import trouble_of
from gpunion.cli.context import Context
from gpunion.cli.exits import DENIED, INTERRUPTED, USAGE, Trouble
from gpunion.cli.jobs.fetching import Wanted, fetch_output
from gpunion.cli.jobs.following import Follower, exit_code_of
from gpunion.cli.jobs.job_file import add_job_file, named_job_file
from gpunion.cli.jobs.job_flags import add_job_flags, folder_of, job_request
from gpunion.cli.jobs.job_names import short
from gpunion.cli.jobs.submitting import say_what_it_used_before, submit
from gpunion.cli.output.used import used_in_words
from gpunion.sdk.errors import ApiProblem, ClientError
from gpunion.text import counted

CONNECTS = True
TAKES_COMMAND = True
JSON = """One object a line. First `{"type": "submitted", "job", "reasons", "verdicts", "left_out"}`, as
`gpunion submit` has it, then any number of
`{"type": "output", "text"}` and `{"type": "story", "at", "code", "sentence", "times"}`, at last
`{"type": "ended", "job"}` and, with --output, `{"type": "fetched", ...}` as `gpunion cp` has it; or
`{"type": "detached", "job_id"}` after Ctrl-C.
A job is as in docs/http-api.md."""
EXAMPLES = (
    "gpunion run -- python train.py --epochs 3",
    "gpunion run --output results -- python train.py",
    "gpunion run job.toml --output results",
    "gpunion run --gpus 2 --vram 20GB --checkpoint-every 60s -- python train.py",
)


def configure(parser: argparse.ArgumentParser) -> None:
    add_job_file(parser)
    add_job_flags(parser)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="put what it has made there, at its end; what is there is not sent",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    file = named_job_file(arguments, context.here, "run")
    job = job_request(arguments, file)
    folder = folder_of(arguments, context.here, file)
    campus = context.campus(arguments)
    output = None if arguments.output is None else context.here / arguments.output
    if output is not None:
        _check_output(output)
    answer = submit(context, campus, job, folder, output=output, included=arguments.include)
    job_id = str(answer["job"]["id"])
    if context.screen.as_json:
        context.screen.record({"type": "submitted", **answer})
    else:
        context.screen.note(
            f"Job {short(job_id)} ({answer['job']['name']}) is handed in. Ctrl-C leaves it running."
        )
        say_what_it_used_before(context.screen, answer)
    follower = Follower(context, campus, job_id)
    try:
        ended = follower.follow()
    except KeyboardInterrupt:
        return _detached(context, follower)
    except ClientError as error:
        trouble = trouble_of(error)
        trouble.next_step = f"follow it later with: gpunion logs -f {short(job_id)}. {follower.prospect}"
        raise trouble from error
    if context.screen.as_json:
        context.screen.record({"type": "ended", "job": ended})
    else:
        context.screen.note(
            f"Job {short(job_id)} {ended['phase']}{_code(ended)}, after {counted(ended['moves'], 'move')}."
        )
        if ended.get("used"):
            context.screen.note(f"It used {used_in_words(ended['used'], ended['resources'])}.")
    _outputs(context, campus, ended, output)
    return exit_code_of(ended)


def _code(ended: Json) -> str:
    code = ended["exit_code"]
    # Another member of its gang, or what it made, was the trouble.
    if code == 0 and ended["phase"] == "failed":
        return ", though its own program ended with 0"
    return "" if code is None else f" with exit code {code}"


def _check_output(target: Path) -> None:
    """Before the job runs for hours: what is in the way then is in the way now."""
    place = target
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise Trouble(
            f"--output {target}: {place} is a file", next_step="name a directory, or one to make", code=USAGE
        )
    if not os.access(place, os.W_OK | os.X_OK):
        raise Trouble(
            f"--output {target}: you may not write in {place}",
            next_step="name a directory of yours, or fetch it later with gpunion cp",
            code=DENIED,
        )


def _outputs(context: Context, campus: Campus, job: Json, target: Path | None) -> None:
    """Fetched where that was asked for; else how to."""
    job_id = str(job["id"])
    if target is None:
        if job["output"] is not None and not context.screen.as_json:
            context.screen.note(f"What it made is kept. Fetch it: gpunion cp {short(job_id)}: DIR")
        return
    wanted = Wanted(job_id=job_id, path="", target=target)
    try:
        fetched = fetch_output(context.screen, campus, wanted)
    except ApiProblem as problem:
        if problem.code != "no_output":
            raise
        context.screen.note(problem.detail)
        return
    if context.screen.as_json:
        context.screen.record({"type": "fetched", **fetched.plain()})
    else:
        context.screen.note(f"What it made: {told(fetched)}")


def _detached(context: Context, follower: Follower) -> int:
    job_id = follower.job_id
    if context.screen.as_json:
        context.screen.record({"type": "detached", "job_id": job_id})
    context.screen.note(
        f"\nDetached. {follower.prospect}\n"
        f"Come back: gpunion logs -f {short(job_id)}   Stop it: gpunion stop {short(job_id)}"
    )
    return INTERRUPTED
