"""Changes that only keep count: a run that numbers a save, a job that learns what one cost, a node that shows
other signs of its owner.

They are most of all changes and nobody goes anywhere for them, so the planner need not look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from gpunion.domain.decision import Record
from gpunion.domain.job import Job
from gpunion.domain.node import Node
from gpunion.domain.records import compiled
from gpunion.domain.run import Run


def _same_but(kind: type, *counts: str) -> Callable[[Any, Any], bool]:
    """Compares everything but the counts: a field that is added to a record later matters until somebody says
    otherwise. Most fields of a changed copy are the very same object, which is quickly seen."""
    names = [field.name for field in fields(kind) if field.name not in counts]
    alike = " and ".join(f"(a.{name} is b.{name} or a.{name} == b.{name})" for name in names)
    same: Callable[[Any, Any], bool] = compiled(f"def same(a, b):\n    return {alike}", "same", {})
    return same


_same_run = _same_but(Run, "checkpoints")
_same_job = _same_but(Job, "cost", "durable", "copies")
_same_node = _same_but(Node, "signs", "signs_since_s", "signs_before")


def only_counts(former: Record | None, record: Record) -> bool:
    if type(record) is Job:
        return type(former) is Job and not record.phase.waiting and _same_job(former, record)
    if type(record) is Run:
        return type(former) is Run and _same_run(former, record)
    if type(record) is Node:
        return type(former) is Node and former.signs != record.signs and _same_node(former, record)
    return False
