"""A service that tests need counts as there only when all of it is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services import CHECKOUT

ASK = "from tests.services import why_absent; print(why_absent('prometheus'))"


@pytest.mark.parametrize(
    ("there", "answer"),
    [
        (("prometheus", "promtool"), "None"),
        (("prometheus",), "promtool: "),
        (("promtool",), "prometheus: "),
    ],
)
def test_prometheus_is_there_only_with_its_tool(tmp_path: Path, there: tuple[str, ...], answer: str) -> None:
    """Where it is required, a test that needs the tool fails then, and is not skipped."""
    for name in there:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    shell = shutil.which("sh")
    assert shell is not None
    (tmp_path / "sh").symlink_to(shell)
    asked = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=CHECKOUT,
        env={"PATH": str(tmp_path), "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer in asked.stdout
    assert ("not found" in asked.stdout) == (len(there) == 1)
