from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.adapters.usage_history import SqliteUsageHistory


@pytest.fixture
def history(tmp_path: Path) -> SqliteUsageHistory:
    return SqliteUsageHistory(tmp_path / "usage.db")
