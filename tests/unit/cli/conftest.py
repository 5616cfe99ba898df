"""A terminal in an empty directory, with a campus behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.campus_double import CampusDouble, Terminal


@pytest.fixture
def campus() -> CampusDouble:
    return CampusDouble()


@pytest.fixture
def gpunion(campus: CampusDouble, tmp_path: Path) -> Terminal:
    return Terminal(campus, tmp_path)
