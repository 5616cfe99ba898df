"""How long a place may think before it counts as away: a file server that hangs does not even refuse."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from gpunion.vault.manifest import VaultUnavailable
from gpunion.vault.partners import leave_partner, partner
from gpunion.vault.room import leave_room

T = TypeVar("T")
ANSWER_LIMIT_S = 30.0
# Eight blocks of 4 MiB are under way together: that many fit through 5 Mb/s within this.
STALL_LIMIT_S = 60.0


class Patience:
    """One for all vaults of a machine, from any thread. While a place owes an answer that was waited for in
    vain it is not asked anything, so that one that hangs for days costs one thread for each who met it first.
    """

    def __init__(
        self,
        limit_s: float = ANSWER_LIMIT_S,
        stall_s: float = STALL_LIMIT_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now_s` is what a stall is measured by."""
        self._limit_s = limit_s
        self._stall_s = stall_s
        self._now_s = now_s
        self._moved_s: dict[str, float] = {}  # when something of a place was last done
        self._lock = threading.Lock()
        self._owed: dict[str, list[Future[object]]] = {}

    def check(self, place: str) -> None:
        """VaultUnavailable while it owes an answer."""
        with self._lock:
            owed = [answer for answer in self._owed.get(place, ()) if not answer.done()]
            self._owed[place] = owed
        if owed:
            raise VaultUnavailable(
                f"{place} has not answered what it was asked before. Next: wait, or look whether it hangs"
            )

    def ask(self, place: str, question: Callable[[], T]) -> T:
        """In a thread of its own, which nobody waits for when the process ends. What the question raises, or
        VaultUnavailable when it takes too long; it goes on then, and its answer is for nobody."""
        answer = self._begin(place, question)
        try:
            return self._wait(place, answer)
        finally:
            self._note_debt(place, answer)

    def carry(self, place: str, piece: Callable[[], T], stall_s: float | None = None) -> T:
        """One of many, such as the blocks of an upload: waited for while any of them gets done. When none
        has for so long the place counts as away, until it has answered."""
        self.check(place)
        answer = partner().begin(piece)
        try:
            return self._wait_while_it_moves(place, answer, stall_s or self._stall_s)
        finally:
            if self._note_debt(place, answer):
                leave_partner()
                leave_room()  # the piece may lie in it, and is still being read
            else:
                self._moved_s[place] = self._now_s()

    def have_done(self, place: str, work: Callable[[], T]) -> T:
        """As `ask`, of what may well take longer: the place does not count as away for that."""
        return self._wait(place, self._begin(place, work))

    def _begin(self, place: str, question: Callable[[], T]) -> Future[T]:
        self.check(place)
        answer: Future[T] = Future()

        def run() -> None:
            try:
                result = question()
            except BaseException as error:
                answer.set_exception(error)
            else:
                answer.set_result(result)

        threading.Thread(target=run, daemon=True, name=f"gpunion-ask-{place}").start()
        return answer

    def _note_debt(self, place: str, answer: Future[T]) -> bool:
        if answer.done():
            return False
        with self._lock:
            self._owed.setdefault(place, []).append(answer)  # type: ignore[arg-type]
        return True

    def _wait_while_it_moves(self, place: str, answer: Future[T], stall_s: float) -> T:
        began_s = self._now_s()
        while True:
            left_s = max(began_s, self._moved_s.get(place, began_s)) + stall_s - self._now_s()
            try:
                return answer.result(max(0.0, left_s))
            except TimeoutError:
                if answer.done():  # the piece's own, or just in time
                    return answer.result()
            if left_s <= 0:
                raise VaultUnavailable(
                    f"{place} has got nothing done for {stall_s:g} s. Next: wait, or look whether it hangs"
                )

    def _wait(self, place: str, answer: Future[T]) -> T:
        try:
            return answer.result(self._limit_s)
        except TimeoutError:
            if answer.done():  # the question's own, or just in time
                return answer.result()
        raise VaultUnavailable(
            f"{place} has not answered for {self._limit_s:g} s. Next: wait, or look whether it hangs"
        )
