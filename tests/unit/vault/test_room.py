"""Memory that threads use again."""

from __future__ import annotations

import threading

from gpunion.vault.room import LARGE_BYTES, room


def test_the_same_use_gets_the_same_memory_and_another_use_another() -> None:
    room("first", 100)[:3] = b"abc"
    room("second", 100)[:3] = b"xyz"
    assert bytes(room("first", 3)) == b"abc"
    assert len(room("first", LARGE_BYTES)) == LARGE_BYTES


def test_threads_that_live_at_once_never_share() -> None:
    mine = room("shared", 100)
    mine[:3] = b"abc"

    def scribble() -> None:
        room("shared", 100)[:] = b"z" * 100

    for _ in range(3):  # also one that got what another left behind
        thread = threading.Thread(target=scribble)
        thread.start()
        thread.join()
    assert bytes(mine[:3]) == b"abc"


def test_what_was_lent_stays_readable_when_more_room_is_asked_for() -> None:
    lent = room("grown", 10)
    lent[:] = b"0123456789"
    room("grown", 10 * LARGE_BYTES)[:10] = b"abcdefghij"
    assert bytes(lent) == b"0123456789"
