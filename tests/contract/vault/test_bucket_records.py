"""Records of a bucket that are damaged or lost: told, mended where that can be, and no work deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpunion.vault.manifest import BadManifest, OldEpoch
from gpunion.vault.stores.bucket import store as desk_module
from gpunion.vault.stores.bucket.caretaker import BucketCaretaker
from gpunion.vault.stores.bucket.objects import Objects
from gpunion.vault.stores.bucket.store import BucketDesk
from gpunion.vault.vault import MirrorVault
from tests.builders.checkpoints import name_of, sealed

pytestmark = pytest.mark.requires("s3")
LEDGER = "jobs/job-1/ledger.json"


@pytest.fixture
def objects() -> Objects:
    from obstore.store import MemoryStore

    return Objects(MemoryStore(), "memory")


@pytest.fixture
def vault(objects: Objects, tmp_path: Path) -> MirrorVault:
    vault = a_machine(objects, tmp_path / "mirror")
    sealed(vault, {"w": b"one"}, checkpoint_id="c1", step=1, epoch=4)
    sealed(vault, {"w": b"two"}, checkpoint_id="c2", step=2, epoch=4)
    sealed(vault, {"w": b"other"}, job_id="job-2", checkpoint_id="d1")
    return vault


def a_machine(objects: Objects, mirror: Path) -> MirrorVault:
    return MirrorVault(BucketDesk(objects, grace_s=0.0), mirror, limit_bytes=10**9)


def quietly(done: int, total: int) -> None:
    assert done <= total


def lose(objects: Objects) -> None:
    objects.delete([LEDGER])


def overwrite(objects: Objects) -> None:
    objects.put(LEDGER, b"{garbage")


@pytest.mark.parametrize("harm", [lose, overwrite])
def test_a_job_s_record_that_is_damaged_or_lost_is_told_and_built_again(
    vault: MirrorVault, objects: Objects, tmp_path: Path, harm: Any
) -> None:
    harm(objects)
    for ask in (
        vault.collect_garbage,
        lambda: vault.begin("job-1", 5),
        lambda: vault.latest("job-1"),
        lambda: vault.forget("job-1", 2),
    ):
        with pytest.raises(BadManifest, match="Next: end what runs of this job, then gpunion vault repair"):
            ask()
    caretaker = BucketCaretaker(objects)
    findings = caretaker.verify(None, quietly)
    assert ([fence.job_id for fence in findings.fences], findings.checkpoints) == (["job-1"], 1)
    assert [shelf.job_id for shelf in caretaker.survey(None) if shelf.damaged] == ["job-1"]
    assert caretaker.repair(None, None, quietly).fences == (("job-1", 4),)
    assert caretaker.verify(None, quietly).checkpoints == 3
    other = a_machine(objects, tmp_path / "other")
    with pytest.raises(OldEpoch):
        other.begin("job-1", 3)
    other.collect_garbage()
    assert [manifest.checkpoint_id for manifest in other.manifests("job-1")] == ["c1", "c2"]
    assert other.read_block(name_of(b"one")) == b"one"


def test_a_damaged_list_of_doomed_copies_keeps_nobody_from_saving(
    vault: MirrorVault, objects: Objects, tmp_path: Path
) -> None:
    """Any copy may be on it: whoever saves stores its own, until the list has gone with its writer."""
    objects.put("doomed/somebody", b"{garbage")
    other = a_machine(objects, tmp_path / "other")
    sealed(other, {"w": b"one"}, job_id="job-3", checkpoint_id="e1")
    other.collect_garbage()
    assert objects.list("doomed/") == []
    assert other.read_block(name_of(b"one")) == b"one"


def test_a_damaged_list_of_claims_stops_the_collector_while_its_writer_lives(
    vault: MirrorVault, objects: Objects
) -> None:
    objects.put("sessions/somebody", b"alive")
    objects.put("claims/somebody/1", b"\xff")
    with pytest.raises(BadManifest, match="It goes by itself"):
        vault.collect_garbage()
    objects.delete(["sessions/somebody"])
    vault.collect_garbage()
    assert objects.list("claims/") == []


def test_a_damaged_note_of_the_last_collection_costs_no_save(
    vault: MirrorVault, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.put("collected.json", b"{garbage")
    monkeypatch.setattr(desk_module, "COLLECT_EVERY_S", 0.0)
    assert vault.forget("job-1", 2) == ()
    assert b"began_s" in objects.get("collected.json").data  # type: ignore[union-attr]


def test_a_hold_that_is_not_known_can_be_let_go_of_again(objects: Objects) -> None:
    BucketDesk(objects).release("0" * 32)


def test_what_somebody_else_put_among_the_records_is_nobody_s_checkpoint(
    vault: MirrorVault, objects: Objects
) -> None:
    """Consoles make empty objects for folders, and people leave notes."""
    objects.put("jobs/job-9/manifests/", b"")
    objects.put("jobs/job-1/manifests/read-me.txt", b"hands off")
    vault.collect_garbage()
    vault.begin("job-9", 1)
    lose(objects)
    assert BucketCaretaker(objects).repair(None, None, quietly).fences == (("job-1", 4),)
    assert [manifest.checkpoint_id for manifest in vault.manifests("job-1")] == ["c1", "c2"]
