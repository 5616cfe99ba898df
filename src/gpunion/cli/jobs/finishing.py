"""A job whose program has ended and whose output is still on its way: what was saved before is not it."""

from __future__ import annotations

from gpunion.cli.campus import Campus
from gpunion.cli.context import Context
from gpunion.cli.exits import UNAVAILABLE, Trouble
from gpunion.cli.jobs.job_names import short

LOOK_S = 1.0


def wait_until_sent(context: Context, campus: Campus, job_id: str) -> None:
    """At once where nothing is on its way. Trouble: what keeps it, which may take long."""
    told = False
    while (finishing := campus.job(job_id).get("finishing")) is not None:
        if finishing["trouble"] is not None:
            raise Trouble(
                f"the output of {short(job_id)} is not there yet",
                why=f"its program has ended, and its output is not taken: {finishing['trouble']}",
                next_step=f"the same command again, once gpunion why {short(job_id)} says that it has ended",
                code=UNAVAILABLE,
            )
        if not told:
            told = True
            context.screen.note(
                f"The program of {short(job_id)} has ended and its output is still being sent. Waiting for "
                "it; after Ctrl-C the same command fetches it later."
            )
        context.pause(LOOK_S)
