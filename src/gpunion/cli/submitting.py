"""Handing a job in: its directory first, then the job."""

from __future__ import annotations

from pathlib import Path

from gpunion.cli.campus import Campus, Json
from gpunion.cli.context import Context
from gpunion.cli.environments import check_lockfile
from gpunion.cli.sending import send_directory


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
    if folder is not None:
        digest = send_directory(context.screen, campus, folder, quiet=quiet, output=output)
        if digest is not None:
            job = {**job, "bundle": digest}
    return campus.submit(job)
