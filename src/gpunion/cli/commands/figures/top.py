"""`gpunion top`: the campus as it is, drawn anew every two seconds."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from gpunion.cli.campus import Campus, Json
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.output.cells import cut
from gpunion.cli.output.screen import OBEYED, screen_width
from gpunion.cli.output.top import Look, looked_at
from gpunion.cli.quantities import positive_duration_s

CONNECTS = True
JSON = """`{nodes, guests, queue, waiting}` once, as in GET /nodes and GET /jobs (docs/http-api.md): `guests`
are jobs on machines, `queue` the first 200 of those that wait, oldest first, `waiting` how many wait."""
EXAMPLES = ("gpunion top", "gpunion top --every 10s", "gpunion top | head -20")
EVERY_S = 2.0
WAITING = ("pending", "migrating", "between")
# A campus has more machines and longer queues than a screen: no more is asked for than it could show.
QUEUE_SHOWN, MACHINES_AT_ONCE, PAGE = 200, 100, 500

# A screen of its own, with what was there before put back at the end; no cursor meanwhile.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--every", type=positive_duration_s, default=EVERY_S, metavar="TIME",
        help="how often it looks, on a terminal (default: 2s)",
    )  # fmt: skip


def run(arguments: argparse.Namespace, context: Context) -> int:
    campus, screen = context.campus(arguments), context.screen
    if screen.as_json:
        look = look_at(campus)
        screen.data(
            {"nodes": look.nodes, "guests": look.guests, "queue": look.queue, "waiting": look.waiting}
        )
        return OK
    if not screen.out.isatty():
        for line in looked_at(look_at(campus), width=None, height=None):
            screen.line(line)
        return OK
    look = look_at(campus, _height())  # what goes wrong at once is told on the screen that was there before
    trouble = ""
    with _own_screen(screen.out) as quits:
        try:
            while True:
                _draw(look, trouble, screen.out)
                if quits(arguments.every):
                    return OK
                look, trouble = look_again(campus, look, _height())
        except KeyboardInterrupt:
            return OK


def look_again(campus: Campus, before: Look, lines: int) -> tuple[Look, str]:
    """What was seen last, and why it was not seen anew, while a coordinator is started again."""
    from gpunion.sdk.errors import ClientError

    try:
        return look_at(campus, lines), ""
    except ClientError as error:
        return before, str(error)


def look_at(campus: Campus, lines: int | None = None) -> Look:
    """`lines`: of the screen that shows it, None where there is none."""
    nodes = sorted(campus.nodes(), key=lambda node: node["id"])
    shown = [node["id"] for node in nodes[:lines] if node["runs"]]
    queue = campus.jobs(phases=WAITING, oldest_first=True, limit=min(lines or QUEUE_SHOWN, QUEUE_SHOWN))
    return Look(nodes=nodes, guests=list(_guests(campus, shown)), queue=queue["jobs"], waiting=queue["total"])


def _guests(campus: Campus, nodes: list[str]) -> Iterator[Json]:
    for at in range(0, len(nodes), MACHINES_AT_ONCE):
        cursor: str | None = None
        while True:
            page = campus.jobs(nodes=nodes[at : at + MACHINES_AT_ONCE], limit=PAGE, cursor=cursor)
            yield from page["jobs"]
            cursor = page["next_cursor"]
            if cursor is None:
                break


def _draw(look: Look, trouble: str, out: IO[str]) -> None:
    width = screen_width()
    lines = looked_at(look, width=width, height=_height() - 1)
    last = f"NOT OF NOW, it asks again: {trouble}" if trouble else "q or Ctrl-C ends it."
    lines = [*lines, last if width is None else cut(last, width)]
    drawn = "\n".join(OBEYED.sub(" ", line) + _END_OF_LINE for line in lines)
    out.write(_HOME + drawn + _BELOW)
    out.flush()


def _height() -> int:
    import shutil

    return shutil.get_terminal_size().lines


@contextmanager
def _own_screen(out: IO[str]) -> Iterator[_Keys]:
    with _Keys() as keys:
        out.write(_ENTER)
        try:
            yield keys
        finally:
            out.write(_LEAVE)
            out.flush()


class _Keys:
    """Asked whether somebody quits within a time. Keys count as they are hit, and are not shown."""

    def __enter__(self) -> _Keys:
        import sys
        import termios
        import tty

        self._saved = None
        if sys.stdin.isatty():
            self._saved = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(self, *_: object) -> None:
        import sys
        import termios

        if self._saved is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._saved)

    def __call__(self, within_s: float) -> bool:
        import os
        import select
        import sys
        import time

        if self._saved is None:
            time.sleep(within_s)
            return False
        ready, _, _ = select.select([sys.stdin], [], [], within_s)
        return bool(ready) and os.read(sys.stdin.fileno(), 1) in (b"q", b"Q", b"")
