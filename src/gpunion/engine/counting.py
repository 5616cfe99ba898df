"""Changes that only keep count: a run that numbers a save, a job that learns what one cost.

They are most of all changes and nobody goes anywhere for them, so the planner need not look.
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter

from gpunion.domain.decision import Record
from gpunion.domain.job import Job
from gpunion.domain.run import Run

# Everything but the counts: a field that is added to a record later matters until somebody says otherwise.
_OF_RUN = attrgetter(*(f.name for f in fields(Run) if f.name != "checkpoints"))
_OF_JOB = attrgetter(*(f.name for f in fields(Job) if f.name not in ("cost", "durable", "copies")))


def only_counts(former: Record | None, record: Record) -> bool:
    if isinstance(record, Run):
        return isinstance(former, Run) and bool(_OF_RUN(former) == _OF_RUN(record))
    if isinstance(record, Job):
        return (
            isinstance(former, Job) and not record.phase.waiting and bool(_OF_JOB(former) == _OF_JOB(record))
        )
    return False
