"""What a job used, put together from its runs, and which program it was."""

from __future__ import annotations

import pytest

from gpunion.domain.jobs.use import RunUse, program_of, together


def a_use(for_s: float, **changes: float | None) -> RunUse:
    return RunUse(for_s=for_s, cpu_s=for_s / 2, memory_bytes=int(for_s), **changes)  # type: ignore[arg-type]


def test_times_are_added_up_and_of_the_rest_the_most_counts() -> None:
    used = together([a_use(10.0, gpu_memory_bytes=7), a_use(30.0, gpu_memory_bytes=None)])
    assert used == RunUse(for_s=40.0, cpu_s=20.0, memory_bytes=30, gpu_memory_bytes=7)


def test_busy_gpus_are_weighed_by_how_long_they_were_seen() -> None:
    used = together([a_use(10.0, gpu_utilisation=1.0), a_use(30.0, gpu_utilisation=0.2), a_use(60.0)])
    assert used is not None
    assert used.gpu_utilisation == pytest.approx(16.0 / 40.0)


def test_nothing_measured_is_nothing_known() -> None:
    assert together([]) is None


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("python train.py --epochs 3", ("python", "train.py")),
        ("/usr/bin/python -u sub/train.py", ("python", "train.py")),
        ("python -m package.train --lr 0.1", ("python", "package.train")),
        ("torchrun --nproc-per-node 2 train.py", ("torchrun", "train.py")),
        ("./simulate --steps 1000", ("simulate",)),
        ("python -c print(1)", ("python",)),
        ("", ()),
    ],
)
def test_a_program_is_the_same_whatever_its_arguments(command: str, program: tuple[str, ...]) -> None:
    assert program_of(command.split()) == program
