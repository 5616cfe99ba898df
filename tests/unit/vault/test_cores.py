"""How many threads a vault takes."""

from __future__ import annotations

import os

import pytest

from gpunion.adapters.files import restore
from gpunion.adapters.files.cores import THREADS_MAX, cores, threads
from gpunion.adapters.files.directory import DirectoryVault
from gpunion.adapters.files.pieces import ROW, STRIP
from tests.builders.memory_vault import MemoryVault

ROWS_THAT_LET_OTHERS_WORK = 500


def allowed(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(count)))


def test_only_cores_that_this_process_may_use_count(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed(monkeypatch, 3)
    assert (cores(), threads(), threads(more=1), threads(per_core=2)) == (3, 3, 4, 6)


def test_a_large_machine_does_not_get_more_than_python_can_keep_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed(monkeypatch, 64)
    assert threads() == threads(per_core=2) == THREADS_MAX


def test_a_restore_from_afar_has_one_thread_more_to_wait_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]
) -> None:
    allowed(monkeypatch, 2)
    assert restore._workers_for(DirectoryVault(tmp_path)) == 2
    assert restore._workers_for(MemoryVault(journal=[])) == 3


def test_exceptions_are_summed_up_in_as_many_rows_as_let_other_threads_work() -> None:
    assert STRIP // ROW > ROWS_THAT_LET_OTHERS_WORK
