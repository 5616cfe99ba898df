"""A name that the coordinator gave leads to nothing but a path right below its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.agent.id_paths import path_of
from gpunion.limits import OutOfRange


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/etc", "../x", "a/b", "a\n", "a\0b", ".hidden", "-rf", "x" * 129]
)
def test_a_name_that_leads_elsewhere_makes_no_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutOfRange):
        path_of(tmp_path, name)


def test_a_name_of_a_run_lies_below_its_folder(tmp_path: Path) -> None:
    assert path_of(tmp_path, "job-1-e2") == tmp_path / "job-1-e2"
    assert path_of(tmp_path, "job-1-e2", ending=".json") == tmp_path / "job-1-e2.json"
