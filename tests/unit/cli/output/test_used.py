"""What a job used, in words, and what to ask for the next time."""

from __future__ import annotations

from typing import Any

import pytest

from gpunion.cli.output.used import before_in_words, suggestion, used_in_words

GIB = 2**30
Json = dict[str, Any]


def used(**changes: Any) -> Json:
    usual: Json = {
        "jobs": 1, "for_s": 60.0, "cpus": 0.9, "memory_bytes": 3 * GIB, "gpu_utilisation": 0.5,
        "gpu_memory_bytes": 6 * GIB,
    }  # fmt: skip
    return {**usual, **changes}


def asked(**changes: Any) -> Json:
    usual: Json = {"gpus": 1, "cpus": 1.0, "memory_bytes": 4 * GIB, "vram_bytes": 8 * GIB}
    return {**usual, **changes}


def test_it_is_told_beside_what_was_asked_for() -> None:
    assert used_in_words(used(), asked()) == (
        "3 GiB of 4 GiB memory, 0.9 of 1 CPU on average, 1 GPU 50% busy, 6 GiB of 8 GiB GPU memory"
    )


def test_what_nobody_saw_is_not_told() -> None:
    seen = used(gpu_utilisation=None, gpu_memory_bytes=None)
    assert used_in_words(seen, asked()) == "3 GiB of 4 GiB memory, 0.9 of 1 CPU on average"


@pytest.mark.parametrize(
    ("took", "wanted", "flags"),
    [
        (used(), asked(), ""),  # it asked for about what it takes
        (used(), asked(memory_bytes=16 * GIB), "--memory 3840MiB"),
        (used(memory_bytes=10 * GIB), asked(memory_bytes=64 * GIB), "--memory 13GiB"),
        (used(memory_bytes=4 * GIB), asked(), "--memory 5GiB"),  # there was no room left
        (used(), asked(cpus=8.0), "--cpus 2"),
        (used(), asked(vram_bytes=40 * GIB), "--vram 8GiB"),
        (used(), asked(vram_bytes=0), ""),  # any card would do
        (used(memory_bytes=1000), asked(), "--memory 256MiB"),
    ],
)
def test_other_flags_are_suggested_where_they_differ_by_much(took: Json, wanted: Json, flags: str) -> None:
    assert suggestion(took, wanted) == flags


def test_who_asks_for_what_it_takes_is_told_nothing() -> None:
    assert before_in_words(used(), asked()) == ""


def test_several_times_are_told_as_several() -> None:
    said = before_in_words(used(jobs=3), asked(memory_bytes=16 * GIB))
    assert said.startswith("The last 3 times, at most, this program used 3 GiB of 16 GiB memory")
    assert said.endswith("Next: --memory 3840MiB would do.")


def test_a_gpu_that_does_nothing_is_pointed_out() -> None:
    said = before_in_words(used(gpu_utilisation=0.01), asked())
    assert "Its GPU did next to nothing" in said
    assert before_in_words(used(gpu_utilisation=0.01), asked(gpus=0)) == ""
