"""Handing a job in: its directory first, then the job."""

from __future__ import annotations

from pathlib import Path

from gpunion.cli.campus import Campus, Json
from gpunion.cli.context import Context
from gpunion.cli.sending import send_directory


def submit(context: Context, campus: Campus, job: Json, folder: Path | None, *, quiet: bool = False) -> Json:
    if folder is not None:
        digest = send_directory(context.screen, campus, folder, quiet=quiet)
        if digest is not None:
            job = {**job, "bundle": digest}
    return campus.submit(job)
