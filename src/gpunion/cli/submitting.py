"""Handing a job in: its directory first, then the job."""

from __future__ import annotations

from pathlib import Path

from gpunion.cli.campus import Campus, Json
from gpunion.cli.context import Context
from gpunion.cli.environments import check_lockfile
from gpunion.cli.sending import send_directory
from gpunion.sdk.errors import ApiProblem


def submit(
    context: Context,
    campus: Campus,
    job: Json,
    folder: Path | None,
    *,
    quiet: bool = False,
    output: Path | None = None,
) -> Json:
    if "lockfile" in job:
        silent = quiet or context.screen.as_json
        check_lockfile(context.screen, folder, job["lockfile"], quiet=silent)
    handed_in: list[Json] = []
    if folder is not None:

        def is_wanted(digest: str) -> bool:
            """Asked before anything is sent: a job that is refused anyway need not wait for its directory."""
            try:
                handed_in.append(_hand_in(context, campus, {**job, "bundle": digest}))
            except ApiProblem as problem:
                if problem.code != "bundle_missing":
                    raise
            return not handed_in  # else somebody has just sent the very same

        digest = send_directory(
            context.screen, campus, folder, quiet=quiet, output=output, is_wanted=is_wanted
        )
        if digest is not None:
            job = {**job, "bundle": digest}
    return handed_in[0] if handed_in else _hand_in(context, campus, job)


def _hand_in(context: Context, campus: Campus, job: Json) -> Json:
    try:
        return campus.submit(job)
    except KeyboardInterrupt:
        context.screen.note(
            "\nIt was just being handed in, and may run now. Next: gpunion ps, to see whether"
        )
        raise
