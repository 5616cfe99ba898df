"""The demo's run alone is made as a guest is, whatever the shell exports."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.cli.demo.training_job import guest_environment


def test_nothing_of_the_shell_reaches_the_run_that_is_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = guest_environment(tmp_path)
    for name in ("OPENBLAS_CORETYPE", "OMP_NUM_THREADS", "PYTHONHASHSEED", "GPUNION_RESUME", "PATH"):
        monkeypatch.setenv(name, "of this shell")
    assert guest_environment(tmp_path) == before
