"""Handing a job in: its directory first, then the job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpunion.cli.campus import Campus, Json
from gpunion.cli.context import Context
from gpunion.cli.jobs.lockfiles import check_lockfile
from gpunion.cli.jobs.sending import send_directory
from gpunion.cli.output.screen import Screen
from gpunion.cli.output.used import before_in_words
from gpunion.sdk.errors import ApiProblem


def submit(
    context: Context,
    campus: Campus,
    job: Json,
    folder: Path | None,
    *,
    quiet: bool = False,
    output: Path | None = None,
    included: Sequence[str] = (),
) -> Json:
    """What POST /jobs answers, and under `left_out` what of the directory stayed here."""
    if "lockfile" in job:
        silent = quiet or context.screen.as_json
        check_lockfile(context.screen, folder, job["lockfile"], quiet=silent)
    handed_in: list[Json] = []
    left_out: list[Json] = []
    if folder is not None:

        def is_wanted(digest: str) -> bool:
            """Asked before anything is sent: a job that is refused anyway need not wait for its directory."""
            try:
                handed_in.append(_hand_in(context, campus, {**job, "bundle": digest}))
            except ApiProblem as problem:
                if problem.code != "bundle_missing":
                    raise
            return not handed_in  # else somebody has just sent the very same

        sent = send_directory(
            context.screen,
            campus,
            folder,
            quiet=quiet,
            output=output,
            included=included,
            is_wanted=is_wanted,
        )
        left_out = [{"name": item.name, "why": item.why.value} for item in sent.left_out]
        if sent.digest is not None:
            job = {**job, "bundle": sent.digest}
    answer = handed_in[0] if handed_in else _hand_in(context, campus, job)
    return {**answer, "left_out": left_out}


def say_what_it_used_before(screen: Screen, answer: Json) -> None:
    """Where its user asked for much more, or for hardly as much."""
    used = answer.get("used_before")
    said = before_in_words(used, answer["job"]["resources"]) if used else ""
    if said:
        screen.note(said)


def _hand_in(context: Context, campus: Campus, job: Json) -> Json:
    try:
        return campus.submit(job)
    except KeyboardInterrupt:
        context.screen.note(
            "\nIt was just being handed in, and may run now. Next: gpunion ps, to see whether"
        )
        raise
