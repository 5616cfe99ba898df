"""What a coordinator learned of its nodes and owners: the records, and the book made from them.

The book is made anew after each lesson and is no record itself: forgetting it costs time and changes no
decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpunion.domain.ids import NodeId
from gpunion.domain.lending import CAMPUS, CampusMemory, Lending
from gpunion.policy.hazard.memory import book_of
from gpunion.policy.hazard.weekly import WeeklyHazard
from gpunion.policy.learning import Answers, Learning
from gpunion.policy.scheduling.notices import NoticeBook

MemoryRecord = Lending | CampusMemory


@dataclass(slots=True)
class Memories:
    lendings: dict[NodeId, Lending] = field(default_factory=dict)
    campus: CampusMemory | None = None
    _hazard: tuple[float | None, WeeklyHazard] | None = field(default=None, compare=False, repr=False)
    _answers: tuple[WeeklyHazard, CampusMemory | None, Answers] | None = field(
        default=None, compare=False, repr=False
    )

    def put(self, record: MemoryRecord) -> None:
        match record:
            case Lending():
                self.lendings[record.id] = record
            case CampusMemory():
                self.campus = record

    def take_back(self, record: MemoryRecord) -> None:
        match record:
            case Lending():
                del self.lendings[record.id]
            case CampusMemory():
                self.campus = None

    def find(self, record: MemoryRecord) -> MemoryRecord | None:
        return self.campus if record.id == CAMPUS else self.lendings.get(NodeId(record.id))

    def records(self) -> tuple[MemoryRecord, ...]:
        return (*self.lendings.values(), *(() if self.campus is None else (self.campus,)))

    def hazard(self, learning: Learning) -> WeeklyHazard:
        """As of the last lesson; asked thousands of times between two."""
        learned_s = None if self.campus is None else self.campus.learned_s
        if self._hazard is None or self._hazard[0] != learned_s:
            book = book_of(self.lendings, learned_s=learned_s or 0.0, utc_offset_s=learning.utc_offset_s)
            self._hazard = (learned_s, WeeklyHazard(book=book))
        return self._hazard[1]

    def notices(self) -> NoticeBook:
        if self.campus is None:
            return NoticeBook()
        return NoticeBook(unannounced=self.campus.unannounced, notices_s=self.campus.notices_s)

    def answers(self, learning: Learning) -> Answers:
        hazard = self.hazard(learning)
        if self._answers is None or self._answers[0] is not hazard or self._answers[1] is not self.campus:
            self._answers = (hazard, self.campus, learning.answers(hazard, self.notices()))
        return self._answers[2]
