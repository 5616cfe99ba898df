"""How a shell writes its log, for whoever reads it: a person, a program, or the journal of systemd.

The journal has a time and a place for how bad a line is, so it gets the first from nobody and the second in
its own way (`journalctl -p warning`); the rest of a line is for people, who are its readers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import IO, Any

import structlog
from structlog.typing import Processor

from gpunion.engine.transcript import for_reading

# As syslog counts.
PRIORITIES = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}


def configure(log_format: str | None, *, once: bool = False) -> None:
    """`text` or `json`; where nobody says, people at a terminal and readers of the journal get text.
    `once`: for a process that never asks again, which makes each line cheaper."""
    journal = goes_to_journal(sys.stderr, os.environ)
    text = sys.stderr.isatty() or journal if log_format is None else log_format == "text"
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            *([] if text and journal else [structlog.processors.TimeStamper(fmt="iso", utc=True)]),
            *(_for_people(journal) if text else _for_programs()),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=once,
    )


def in_colour(stream: IO[str], environment: Mapping[str, str]) -> bool:
    return stream.isatty() and not environment.get("NO_COLOR")


def goes_to_journal(stream: IO[str], environment: Mapping[str, str]) -> bool:
    """systemd says which file it gave us; a stream that was turned elsewhere since is another one."""
    try:
        where = os.fstat(stream.fileno())
    except (OSError, ValueError):  # closed, or no file at all
        return False
    return environment.get("JOURNAL_STREAM") == f"{where.st_dev}:{where.st_ino}"


def _for_programs() -> list[Processor]:
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _for_people(journal: bool) -> list[Processor]:
    written = structlog.dev.ConsoleRenderer(colors=in_colour(sys.stderr, os.environ))
    if not journal:
        return [for_reading, written]

    def with_priority(logger: Any, name: str, fields: MutableMapping[str, Any]) -> str:
        priority = PRIORITIES.get(str(fields.get("level")), PRIORITIES["info"])
        return f"<{priority}>{written(logger, name, fields)}"

    return [for_reading, with_priority]
