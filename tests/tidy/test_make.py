"""What somebody meets who has just cloned this: `make help`, and `make` without the Python it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TERMINAL_COLUMNS = 80
Done = subprocess.CompletedProcess[str]


def test_the_help_fits_a_terminal() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    lines = [line for line in shown.stdout.splitlines() if line.startswith("  make ")]
    assert {line.split()[1] for line in lines} >= {"help", "demo", "test"}
    assert [line for line in lines if len(line) > TERMINAL_COLUMNS] == []


def test_a_python_without_venv_is_told_with_the_package_of_its_own_version(tmp_path: Path) -> None:
    told = _make_venv(tmp_path, version=(3, 12), can_make_environments=False)
    assert told.returncode == 1
    last = told.stderr.splitlines()[-1]
    assert "cannot make virtual environments" in last
    assert last.endswith("sudo apt install python3.12-venv")


def test_a_python_that_is_too_old_is_told_with_what_to_install(tmp_path: Path) -> None:
    told = _make_venv(tmp_path, version=(3, 10), can_make_environments=True)
    assert told.returncode == 1
    assert "is Python 3.10.0; GPUnion needs Python 3.11 or newer" in told.stderr
    assert "make PYTHON=python3.11" in told.stderr


def _make_venv(folder: Path, *, version: tuple[int, int], can_make_environments: bool) -> Done:
    """With a Python that only seems to be of this version, and a package manager that gets nothing."""
    python = folder / "python"
    before = f"import sys; sys.version_info = ({version[0]}, {version[1]}, 0)"
    if not can_make_environments:
        before += "; sys.modules['ensurepip'] = None"
    _program(
        python,
        f'[ "$1" = --version ] && echo "Python {version[0]}.{version[1]}.0" && exit',
        f'exec "{sys.executable}" -c "{before}; exec(sys.argv[1])" "$2"',
    )
    _program(folder / "apt-get", "exit 100")
    return subprocess.run(
        [ROOT / "tools" / "make-venv", python, folder / "venv"],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )


def _program(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
