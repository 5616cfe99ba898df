"""At which level a session would be kept, were its machine wanted now."""

from __future__ import annotations

from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.run import Run
from gpunion.domain.jobs.session_level import Level, Means, Reach, reach_of
from gpunion.domain.protocol.frames import SessionNote
from gpunion.engine.coordinator.runs.whole_guests import may_be_dumped
from gpunion.engine.coordinator.state import CampusState


def level_of(state: CampusState, job: Job, run: Run, note: SessionNote) -> Reach:
    means = Means(
        dumped=may_be_dumped(state, job, run),
        why_not_whole=note.whole_why_not,
        saves_variables=note.level == Level.VARIABLES,
        starting=not note.ready,
    )
    return reach_of(means)
