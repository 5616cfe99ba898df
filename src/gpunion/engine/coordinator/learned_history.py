"""What a coordinator learned of its nodes, owners and guests: the records, and the book made from them.

The book is made anew after each lesson and is no record itself: forgetting it costs time and changes no
decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.account import Account, Quota
from gpunion.domain.jobs.profile import RELIABILITIES_MOST, Reliability
from gpunion.domain.nodes.lending import CampusMemory, Lending, SignTally
from gpunion.policy.checkpoint_timing.notices import NoticeBook
from gpunion.policy.hazard.memory import book_of
from gpunion.policy.hazard.signs import SignBook, book_of_signs
from gpunion.policy.hazard.weekly import WeeklyHazard
from gpunion.policy.learning import Answers, Learning

MemoryRecord = Lending | CampusMemory | Account | Quota | Reliability


@dataclass(slots=True)
class Memories:
    lendings: dict[NodeId, Lending] = field(default_factory=dict)
    campus: CampusMemory | None = None
    accounts: dict[str, Account] = field(default_factory=dict)
    quotas: dict[str, Quota] = field(default_factory=dict)
    reliabilities: dict[str, Reliability] = field(default_factory=dict)
    _programs: dict[str, dict[str, Reliability]] = field(default_factory=dict, compare=False, repr=False)
    _hazard: tuple[float | None, tuple[SignTally, ...], WeeklyHazard] | None = field(
        default=None, compare=False, repr=False
    )
    _answers: tuple[WeeklyHazard, CampusMemory | None, Answers] | None = field(
        default=None, compare=False, repr=False
    )

    def put(self, record: MemoryRecord) -> None:
        match record:
            case Lending():
                self.lendings[record.id] = record
            case CampusMemory():
                self.campus = record
            case Account():
                self.accounts[record.id] = record
            case Quota():
                self.quotas[record.id] = record
            case Reliability():
                self._leave_place(record.id)
                self.reliabilities[record.id] = record
                self._programs.setdefault(record.user, {})[record.program] = record

    def take_back(self, record: MemoryRecord) -> None:
        match record:
            case Lending():
                del self.lendings[record.id]
            case CampusMemory():
                self.campus = None
            case Account():
                del self.accounts[record.id]
            case Quota():
                del self.quotas[record.id]
            case Reliability():
                self._leave_place(record.id)

    def find(self, record: MemoryRecord) -> MemoryRecord | None:
        match record:
            case Lending():
                return self.lendings.get(record.id)
            case CampusMemory():
                return self.campus
            case Account():
                return self.accounts.get(record.id)
            case Quota():
                return self.quotas.get(record.id)
            case Reliability():
                return self.reliabilities.get(record.id)

    def records(self) -> tuple[MemoryRecord, ...]:
        campus = () if self.campus is None else (self.campus,)
        counted = (*self.accounts.values(), *self.quotas.values())
        return (*self.lendings.values(), *campus, *counted, *self.reliabilities.values())

    def programs_of(self, user: str) -> Mapping[str, Reliability]:
        """How far each program of theirs is believed, as far as that is remembered."""
        return self._programs.get(user, {})

    def place_for_another(self) -> str:
        """Of a program nobody knows yet: a place that is free, or the one that was written longest ago."""
        known = self.reliabilities
        if len(known) < RELIABILITIES_MOST:
            return next(str(number) for number in range(RELIABILITIES_MOST) if str(number) not in known)
        return min(known.values(), key=lambda one: (one.as_of_s, one.id)).id

    def _leave_place(self, place: str) -> None:
        former = self.reliabilities.pop(place, None)
        if former is not None:
            programs = self._programs[former.user]
            del programs[former.program]
            if not programs:
                del self._programs[former.user]

    def hazard(self, learning: Learning) -> WeeklyHazard:
        """As of the last lesson; asked thousands of times between two."""
        learned_s = None if self.campus is None else self.campus.learned_s
        signs = () if self.campus is None else self.campus.signs
        if self._hazard is None or self._hazard[0] != learned_s:
            book = book_of(self.lendings, learned_s=learned_s or 0.0, utc_offset_s=learning.utc_offset_s)
            self._hazard = (learned_s, signs, WeeklyHazard(book=book, sign_book=self._sign_book()))
        elif self._hazard[1] is not signs:  # known at once, and the book stays as it is
            self._hazard = (learned_s, signs, replace(self._hazard[2], sign_book=self._sign_book()))
        return self._hazard[2]

    def _sign_book(self) -> SignBook:
        campus = self.campus
        return SignBook() if campus is None else book_of_signs(campus.signs, campus.signs_as_of_s)

    def notices(self) -> NoticeBook:
        if self.campus is None:
            return NoticeBook()
        return NoticeBook(unannounced=self.campus.unannounced, notices_s=self.campus.notices_s)

    def answers(self, learning: Learning) -> Answers:
        hazard = self.hazard(learning)
        if self._answers is None or self._answers[0] is not hazard or self._answers[1] is not self.campus:
            self._answers = (hazard, self.campus, learning.answers(hazard, self.notices()))
        return self._answers[2]
