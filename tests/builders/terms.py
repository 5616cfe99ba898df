"""Terms that an owner changes, and what is said because of them."""

from __future__ import annotations

from gpunion.domain.nodes.terms import Terms
from gpunion.domain.nodes.withheld import HoldCause
from gpunion.domain.protocol.events import OwnerReclaimed
from gpunion.domain.protocol.reports import GuestAskedToGo
from tests.builders import a_guest

NO_STUDENTS = Terms(deny_labs=("students",), notice_s=60.0)
WHY_NOT = "its owner no longer admits guests of lab 'students'"
HOUR = "it is not lent at this hour"


def by_terms(notice_s: float = 30.0, **more: object) -> OwnerReclaimed:
    return OwnerReclaimed(notice_s=notice_s, cause=HoldCause.TERMS, detail=HOUR, **more)  # type: ignore[arg-type]


def asked(deadline_s: float | None, why: str = WHY_NOT) -> GuestAskedToGo:
    guest = a_guest()
    return GuestAskedToGo(
        run_id=guest.run_id, job_id=guest.job_id, epoch=1, deadline_s=deadline_s, detail=why
    )
