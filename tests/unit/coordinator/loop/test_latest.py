"""What many look at is worked out once for all of them, and again when it has grown old."""

from __future__ import annotations

from gpunion.coordinator.loop.latest import Latest


def test_it_is_worked_out_once_for_all_who_look_at_the_same_time() -> None:
    latest: Latest[int] = Latest()
    made: list[int] = []

    def work_out() -> int:
        made.append(len(made))
        return made[-1]

    assert [latest.of(at_s, 1.0, work_out) for at_s in (10.0, 10.2, 10.99, 11.0, 11.5, 30.0)] == [
        0, 0, 0, 1, 1, 2,
    ]  # fmt: skip
