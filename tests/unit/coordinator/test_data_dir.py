"""The data folder of a coordinator: who may look into it."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gpunion.coordinator.data_dir import shut_to_others


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def folder_with(tmp_path: Path, *inner: str) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in inner:
        (folder / name).mkdir()
        (folder / name).chmod(0o755)
    folder.chmod(0o755)
    return folder


def test_a_folder_that_others_could_look_into_is_shut_and_that_is_told(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "logs", "vault")
    (folder / "gpunion.db-wal").write_text("")
    with capture_logs() as told:
        shut_to_others(folder)
        shut_to_others(folder)
    assert {mode(one) for one in (folder, folder / "trees", folder / "logs")} == {0o700}
    assert [line["event"] for line in told] == ["data_folder_shut"]


@pytest.mark.parametrize(("name", "its_mode"), [("other", 0o755), ("vault", 0o775)])
def test_nobody_is_shut_out_of_what_is_not_the_coordinators_alone(
    tmp_path: Path, name: str, its_mode: int
) -> None:
    folder = folder_with(tmp_path, name, "trees")
    (folder / name).chmod(its_mode)
    with capture_logs() as told:
        shut_to_others(folder)
    assert (mode(folder), mode(folder / name), mode(folder / "trees")) == (0o755, its_mode, 0o700)
    assert [(line["log_level"], line["next_step"]) for line in told] == [("warning", f"chmod 700 {folder}")]
    assert told[0]["trouble"] == f"others may need {name}, which is in it"
