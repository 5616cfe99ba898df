"""What a running campus's decisions are made with: its own book of departures, and how its owners announce.

The engine keeps the records and asks here for the answers they lead to; the simulator's contenders put the
same answers together with a book learned beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gpunion.policy.checkpoint_timing.hazard_aware import HazardAware
from gpunion.policy.checkpoint_timing.notices import NoticeBook
from gpunion.policy.deadline import SaferWhenLate
from gpunion.policy.expected_loss import ExpectedLoss
from gpunion.policy.hazard.buckets import DAY_S, HOUR_S
from gpunion.policy.hazard.weekly import WeeklyHazard
from gpunion.policy.staging import PreStaging

# A lesson a day, as the published figures were made; more often while there is little to learn from.
LESSON_LEAST_S, LESSON_MOST_S = HOUR_S, DAY_S
LESSONS_LEAST = 20


class Answers(NamedTuple):
    """Where to begin, where to go, when to save, and what to bring ahead."""

    scoring: SaferWhenLate
    destination: ExpectedLoss
    timing: HazardAware
    staging: PreStaging


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """`utc_offset_s`: of the campus's clock on the wall, by which owners come and go."""

    utc_offset_s: float = 0.0

    def lesson_after_s(self, age_s: float) -> float:
        return min(LESSON_MOST_S, max(LESSON_LEAST_S, age_s / LESSONS_LEAST))

    def answers(self, hazard: WeeklyHazard, notices: NoticeBook) -> Answers:
        timing = HazardAware(hazard=hazard, notices=notices)
        loss = ExpectedLoss(hazard=hazard, notices=notices, timing=timing)
        return Answers(SaferWhenLate(usual=loss, hazard=hazard), loss, timing, PreStaging(loss=loss))
