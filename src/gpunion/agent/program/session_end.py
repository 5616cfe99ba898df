"""What a session's program is told beside what every program is."""

from __future__ import annotations

import structlog

from gpunion.agent.dependencies import ControlFiles
from gpunion.agent.run_records.notes import RunNote
from gpunion.ports.runtime import RuntimeFault

END_FILE = "end.json"

log = structlog.get_logger()


def tell_end(control: ControlFiles, note: RunNote, because: str) -> None:
    """A program that cannot be told is stopped by the coordinator after a while."""
    try:
        control.write_json(note.paths.control_dir, END_FILE, {"why": because})
    except RuntimeFault as fault:
        log.warning("session_not_told_to_end", run=note.run_id, trouble=str(fault))
