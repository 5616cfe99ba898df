"""Whose a row is, by its name alone: ids are made from each other (see `domain.ids`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_MEMBER = re.compile(r"-r\d+$")
_OF_A_JOB = re.compile(r"(?P<job>.+)-(?:e\d+(?:-[ca]\d+)?|m\d+)")


def job_named_by(name: Any) -> str | None:
    """Of a run, a checkpoint or a move; None where it is the name of none."""
    found = _OF_A_JOB.fullmatch(name) if isinstance(name, str) else None
    return None if found is None else found["job"]


def timer_subject(key: Any) -> tuple[str, str]:
    kind, _, subject = key.partition(":") if isinstance(key, str) else ("", "", "")
    return kind, subject


def ganged_with(job_id: str, jobs: Iterable[str]) -> list[str]:
    """The others of its gang, among these."""
    leader = _MEMBER.sub("", job_id)
    return sorted(other for other in jobs if other != job_id and _MEMBER.sub("", other) == leader)
