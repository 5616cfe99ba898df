"""Handing a job in: its code first, then the job."""

from __future__ import annotations

from pathlib import Path

from gpunion.cli.bundle import pack
from gpunion.cli.campus import Campus, Json
from gpunion.cli.context import Context
from gpunion.cli.quantities import shown_size


def submit(context: Context, campus: Campus, job: Json, folder: Path | None, *, quiet: bool = False) -> Json:
    if folder is not None:
        bundle = pack(folder)
        if bundle.skipped:
            context.screen.note(f"Left out, being neither file nor directory: {', '.join(bundle.skipped)}")
        if bundle.files:
            if not quiet and not context.screen.as_json:
                context.screen.note(
                    f"Sending {bundle.files} file(s) of {folder}, {shown_size(len(bundle.data))}."
                )
            job = {**job, "bundle": campus.put_bundle(bundle.data)}
    return campus.submit(job)
