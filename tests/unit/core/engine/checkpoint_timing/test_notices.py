"""What is learned of how owners leave."""

from __future__ import annotations

import pytest

from gpunion.policy.checkpoint_timing.notices import NOTICES_KEPT, NoticeBook


def test_before_anything_was_seen_half_are_announced_as_the_terms_promise():
    book = NoticeBook()
    assert book.announced_share == 0.5
    assert book.chance_in_time(30.0, promised_s=60.0) == 0.5
    assert book.chance_in_time(90.0, promised_s=60.0) == 0.0


def test_the_chance_falls_with_what_a_save_needs():
    book = NoticeBook()
    for notice_s in (30.0, 60.0, 120.0, 600.0):
        book = book.announced(notice_s).came_unannounced()
    chances = [book.chance_in_time(needs_s, 60.0) for needs_s in (10.0, 45.0, 100.0, 300.0, 900.0)]
    assert chances == sorted(chances, reverse=True)
    assert chances[-1] == 0.0


def test_the_memory_is_bounded_and_keeps_the_share():
    book = NoticeBook()
    for _ in range(3 * NOTICES_KEPT):
        book = book.announced(60.0).came_unannounced()
    assert len(book.notices_s) == NOTICES_KEPT
    assert book.announced_share == pytest.approx(0.5, abs=0.02)


def test_it_survives_being_written_down():
    book = NoticeBook().announced(30.0).came_unannounced()
    assert NoticeBook.from_plain(book.to_plain()) == book
    with pytest.raises(ValueError, match="expected unannounced"):
        NoticeBook.from_plain({"unannounced": "many"})
