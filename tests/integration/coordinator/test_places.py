"""A coordinator that starts while its folders for checkpoints are not mounted."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.domain.protocol.frames import OrderFrame
from gpunion.vault.http.vault_desk import HttpVaultDesk
from gpunion.vault.manifest import VaultUnavailable
from tests.integration.coordinator.process import Coordinator, a_job


def test_what_is_not_mounted_is_told_and_used_again_once_it_is(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    folders = {"campus": tmp_path / "vault", "attic": tmp_path / "attic"}
    config = tmp_path / "campus.toml"
    config.write_text(
        f'vault = "{folders["campus"]}"\n'
        f'[places.attic]\nkind = "directory"\ndirectory = "{folders["attic"]}"\n'
    )
    coordinator.start("--config", str(config))
    coordinator.end()
    for name, folder in folders.items():
        folder.rename(tmp_path / f"{name}-elsewhere")
        folder.mkdir()
    coordinator.start("--config", str(config))

    def troubles() -> set[str]:
        with coordinator.client() as client:
            return {place["name"] for place in client.places()["places"] if place["trouble"]}

    assert troubles() == {"campus", "attic"}
    with coordinator.client() as client, coordinator.node() as node:
        job_id = client.submit(a_job())["job"]["id"]
        assert node.receive_a(OrderFrame).order.job_id == job_id
        assert "its mark is not there" in client.why(job_id)["places"]["campus"]
        desk = HttpVaultDesk(coordinator.url, node.credential)
        with pytest.raises(VaultUnavailable, match="not mounted, or was emptied"):
            desk.begin(job_id, 1)
        assert [list(folder.iterdir()) for folder in folders.values()] == [[], []]
        for name, folder in folders.items():
            folder.rmdir()
            (tmp_path / f"{name}-elsewhere").rename(folder)
        assert troubles() == set()
        desk.begin(job_id, 1)
        assert "its mark" not in client.why(job_id)["places"].get("campus", "")
        shown = {place["name"]: place["where"] for place in client.places()["places"]}
        assert shown["campus"].startswith(f"{folders['campus']}, kept by the coordinator")
        (folders["attic"] / "mark").unlink()
        assert troubles() == {"attic"}
        assert client.accept_place("attic")["trouble"] == ""
        assert troubles() == set()
