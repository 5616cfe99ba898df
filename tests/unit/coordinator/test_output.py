"""What a job has made, asked of the coordinator when the vault has it, has lost it, or cannot read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpunion.coordinator.api.problems import ApiError
from gpunion.coordinator.routes.output import _find_output, _sealed
from gpunion.domain.ids import CheckpointId
from gpunion.domain.jobs.job import JobPhase
from gpunion.vault.manifest import CheckpointLabel
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.ship import ship_directory
from tests.builders import a_job

OUTPUT = "job-e1-out"


def a_campus(tmp_path: Path) -> tuple[Any, Path]:
    """And the record of what `job` has made."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "file").write_text("made")
    vault = DirectoryVault(tmp_path / "vault")
    label = CheckpointLabel(
        checkpoint_id=OUTPUT, job_id="job", epoch=1, step=1, progress=1.0, tier="output", created_s=0.0
    )
    ship_directory(vault, tmp_path / "made", label)
    (record,) = (path for path in (tmp_path / "vault").rglob(f"*{OUTPUT}*") if path.is_file())
    return SimpleNamespace(open_vault=lambda places: vault, vault="vault"), record


def a_job_that_made(output: str | None) -> Any:
    made = None if output is None else CheckpointId(output)
    return replace(a_job(), phase=JobPhase.SUCCEEDED, output=made)


def refused(campus: Any, output: str | None) -> ApiError:
    with pytest.raises(ApiError) as told:
        _find_output(campus, a_job_that_made(output))
    return told.value


def test_what_a_repair_took_out_of_view_is_gone_and_not_out_of_reach(tmp_path: Path) -> None:
    campus, record = a_campus(tmp_path)
    assert _find_output(campus, a_job_that_made(OUTPUT)).final
    record.write_bytes(b"damaged")
    assert (refused(campus, OUTPUT).status_code, refused(campus, OUTPUT).problem.code) == (
        503,
        "vault_unavailable",
    )
    record.unlink()
    gone = refused(campus, OUTPUT)
    assert (gone.status_code, gone.problem.code) == (404, "output_gone")


def test_who_made_nothing_is_told_where_its_own_words_are(tmp_path: Path) -> None:
    campus, _ = a_campus(tmp_path)
    assert refused(campus, None).problem.next_step == "its words are in: gpunion logs job"


def test_where_nothing_was_ever_saved_nothing_is_out_of_reach(tmp_path: Path) -> None:
    """A fresh campus: its vault's folder is there, and no vault has been made in it."""

    def open_vault(places: tuple[str, ...]) -> DirectoryVault:
        return DirectoryVault(tmp_path, create=False)

    fresh: Any = SimpleNamespace(open_vault=open_vault, vault="vault")
    with pytest.raises(ApiError, match="nothing of it is saved yet") as told:
        _find_output(fresh, a_job())
    assert (told.value.status_code, told.value.problem.code) == (404, "no_output")
    with pytest.raises(ApiError, match="no longer there") as told:
        _sealed(fresh, a_job(), OUTPUT)
    assert (told.value.status_code, told.value.problem.code) == (409, "output_changed")
    assert refused(fresh, OUTPUT).status_code == 503  # it made something, which was there
