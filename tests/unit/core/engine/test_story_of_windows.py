"""A story of many windows is told in few lines, and nothing that went wrong is left out."""

from __future__ import annotations

from gpunion.domain.reasons.reason import Reason, Why, because
from gpunion.engine.coordinator.story import tell

JOB = "job"


def windows(count: int, *, missed: int = -1) -> list[tuple[float, Reason]]:
    entries: list[tuple[float, Reason]] = []
    for number in range(count):
        node = "ab"[number % 2]
        entries += [
            (10.0 * number, because(JOB, Why.PLACED, node=node, epoch=number + 1, because="it is free")),
            (10.0 * number + 1, because(JOB, Why.STARTED, node=node)),
        ]
        if number == missed:
            wrong = because(JOB, Why.WINDOW_MISSED, node=node, lost_s=3.0, durable=5)
            entries.append((10.0 * number + 8, wrong))
        else:
            over = because(JOB, Why.WINDOW_OVER, node=node, step=100 * (number + 1))
            entries += [(10.0 * number + 8, over), (10.0 * number + 9, because("other", Why.CANCELLED))]
    return entries


def test_a_few_windows_are_told_one_by_one() -> None:
    lines = tell(windows(4), JOB)
    assert [line.why for line in lines] == [Why.PLACED, Why.STARTED, Why.WINDOW_OVER] * 4


def test_of_many_the_first_and_the_last_are_told_and_the_rest_in_one_line() -> None:
    lines = tell(windows(40), JOB)
    assert len(lines) == 13
    assert lines[6].sentence == "36 more windows on 2 machines, up to step 3800"
    assert lines[6].at_s == 378.0
    assert [line.at_s for line in lines] == sorted(line.at_s for line in lines)


def test_what_went_wrong_among_them_is_told_where_it_happened() -> None:
    lines = tell(windows(40, missed=20), JOB)
    assert [line.why for line in lines[6:10]] == [
        Why.WINDOWS_OVER,
        Why.WINDOW_MISSED,
        Why.WINDOWS_OVER,
        Why.PLACED,
    ]
    assert "18 more windows" in lines[6].sentence
    assert "17 more windows" in lines[8].sentence
