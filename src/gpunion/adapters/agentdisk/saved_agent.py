"""A SavedAgent as text and back: one line that says what follows and its hash, one line of JSON."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from gpunion.domain.protocol.commit import NumberedReport, SavedAgent
from gpunion.domain.protocol.timers import agent_timer, text_of
from gpunion.wire.bounds import TELL
from gpunion.wire.codec import Malformed, from_plain, to_plain

FORMAT = 1


class Unreadable(Exception):
    """The text is not a state this version wrote. The message says what is wrong."""


class FromTheFuture(Exception):
    """A newer GPUnion wrote it: nothing is broken, this program is too old."""


def to_text(saved: SavedAgent, boot_id: str) -> str:
    body = json.dumps(
        {
            "boot_id": boot_id,
            "incarnation": saved.incarnation,
            "records": [to_plain(record, TELL) for record in saved.records],
            "timers": [[text_of(timer), at_s] for timer, at_s in saved.timers],
            "reports": [to_plain(report, TELL) for report in saved.reports],
            "last_report_seq": saved.last_report_seq,
            "order_seq": saved.order_seq,
        },
        separators=(",", ":"),
    )
    header = json.dumps({"gpunion_agent": FORMAT, "sha256": _digest(body)})
    return f"{header}\n{body}\n"


def from_text(text: str) -> tuple[SavedAgent, str]:
    """The state, and the boot it was written in."""
    lines = text.split("\n")
    if len(lines) != 3 or lines[2]:
        raise Unreadable(f"it has {len(lines)} lines, not a header and a body")
    header = _json_object(lines[0], "header")
    written_by = header.get("gpunion_agent")
    if not isinstance(written_by, int):
        raise Unreadable("its header is not an agent's")
    if written_by > FORMAT:
        raise FromTheFuture(f"format {written_by}; this version knows {FORMAT}")
    if header.get("sha256") != _digest(lines[1]):
        raise Unreadable("its content is not what its checksum promises")
    try:
        return _saved(_json_object(lines[1], "body"))
    except (KeyError, TypeError, ValueError, Malformed) as error:
        raise Unreadable(f"a part of it makes no sense: {error}") from error


def _saved(body: dict[str, Any]) -> tuple[SavedAgent, str]:
    reports = [from_plain(plain) for plain in body["reports"]]
    if not all(isinstance(report, NumberedReport) for report in reports):
        raise ValueError("among the reports is something else")
    saved = SavedAgent(
        incarnation=str(body["incarnation"]),
        records=tuple(from_plain(plain) for plain in body["records"]),
        timers=tuple((agent_timer(str(text)), float(at_s)) for text, at_s in body["timers"]),
        reports=tuple(reports),
        last_report_seq=int(body["last_report_seq"]),
        order_seq=int(body["order_seq"]),
    )
    return saved, str(body["boot_id"])


def _json_object(line: str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"its {what} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Unreadable(f"its {what} is not an object")
    return value


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
