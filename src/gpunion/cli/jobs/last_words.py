"""What a program printed last, for who was shown something else of it."""

from __future__ import annotations

from collections import deque

from gpunion.cli.campus import Campus
from gpunion.cli.context import Context
from gpunion.cli.jobs.following import LAST_WORDS_S, LOG_PAGE_BYTES, LOOK_S, still_there

LINES = 20


def show_last_words(context: Context, campus: Campus, job_id: str) -> None:
    """To stderr, as a note: the job is over, and these lines may say why."""
    lines: deque[str] = deque(maxlen=LINES)
    rest, offset, waited_s = "", 0, 0.0
    while True:
        page = campus.logs(job_id, offset=offset, limit=LOG_PAGE_BYTES)
        offset = page["next_offset"]
        if page["text"]:
            *whole, rest = (rest + page["text"]).split("\n")
            lines.extend(whole)
            waited_s = 0.0
        elif page["over"] or waited_s >= LAST_WORDS_S:
            break
        else:
            context.pause(LOOK_S)
            waited_s += LOOK_S
    shown = [*lines, rest] if rest else list(lines)
    if shown:
        context.screen.note("It printed last:\n" + "\n".join(f"  {line}" for line in shown[-LINES:]))
    if page.get("lacking") is not None:
        context.screen.note(still_there(job_id, page["lacking"]))
