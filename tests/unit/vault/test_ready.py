"""States that lie ready: verified, bounded, gone with their job, and never more than a help."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from blake3 import blake3

from gpunion.vault.files_ready import DirectoryReady, restore_from_ready
from gpunion.vault.manifest import CheckpointLabel, Manifest
from gpunion.vault.ready import ReadyFault
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.ship import ship_directory

NOISE = [blake3(bytes([n])).digest(length=70_000) for n in range(6)]  # cannot be packed


def name_of(data: bytes) -> str:
    return blake3(data).hexdigest()


@pytest.fixture
def ready(tmp_path: Path) -> DirectoryReady:
    return DirectoryReady(tmp_path / "states", limit_bytes=200_000)


def test_what_is_put_is_found_and_what_is_damaged_is_not(ready: DirectoryReady) -> None:
    name = name_of(NOISE[0])
    assert ready.lacking("job", [name]) == {name}
    assert ready.read("job", name) is None
    ready.put("job", name, NOISE[0])
    assert ready.lacking("job", [name]) == set()
    assert ready.read("job", name) == NOISE[0]
    assert ready.read("other", name) is None
    [path] = ready.place.glob("job/blocks/*/*")
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert ready.read("job", name) is None
    assert ready.lacking("job", [name]) == {name}
    ready.put("job", name, NOISE[0])
    assert ready.read("job", name) == NOISE[0]


def test_other_bytes_than_the_name_says_are_refused(ready: DirectoryReady) -> None:
    with pytest.raises(ReadyFault):
        ready.put("job", name_of(NOISE[0]), NOISE[1])
    with pytest.raises(ReadyFault):
        ready.put_stored("job", name_of(NOISE[0]), b"nonsense")
    with pytest.raises(ReadyFault, match="cannot name a job"):
        ready.put("../up", name_of(NOISE[0]), NOISE[0])


def test_as_it_is_stored_it_goes_to_another_machine(ready: DirectoryReady, tmp_path: Path) -> None:
    there = DirectoryReady(tmp_path / "there", limit_bytes=200_000)
    name = name_of(NOISE[0])
    assert ready.open_stored("job", name) is None
    ready.put("job", name, NOISE[0])
    file = ready.open_stored("job", name)
    assert file is not None
    with file:
        there.put_stored("job", name, file.read())
    assert there.read("job", name) == NOISE[0]


def test_the_least_used_jobs_make_room_and_too_much_is_not_taken(ready: DirectoryReady) -> None:
    for job, data in (("old", NOISE[0]), ("young", NOISE[1])):
        assert ready.make_room(job, len(data))
        ready.put(job, name_of(data), data)
    ready.lacking("old", [name_of(NOISE[0])])  # used again: now the other one is the older
    os.utime(ready.place / "young", (1, 1))
    assert ready.make_room("new", 100_000)
    assert ready.jobs() == ("new", "old")
    assert not ready.make_room("giant", 200_001)
    ready.drop("old")
    assert ready.jobs() == ("new",)


def stored_bytes(ready: DirectoryReady) -> int:
    return sum(path.stat().st_size for path in ready.place.rglob("*") if path.is_file())


def test_never_more_is_kept_than_the_owner_gives(ready: DirectoryReady, tmp_path: Path) -> None:
    whole = DirectoryReady(tmp_path / "whole", limit_bytes=1_000_000)
    for data in NOISE[:2]:
        ready.put("job", name_of(data), data)
    with pytest.raises(ReadyFault, match="no room"):
        ready.put("job", name_of(NOISE[2]), NOISE[2])
    whole.put("other", name_of(NOISE[3]), NOISE[3])
    file = whole.open_stored("other", name_of(NOISE[3]))
    assert file is not None
    with file, pytest.raises(ReadyFault, match="no room"):
        ready.put_stored("other", name_of(NOISE[3]), file.read())
    assert stored_bytes(ready) <= 200_000
    # What was there before this process came counts too, and what went makes room.
    again = DirectoryReady(ready.place, limit_bytes=200_000)
    with pytest.raises(ReadyFault, match="no room"):
        again.put("job", name_of(NOISE[2]), NOISE[2])
    again.keep_only("job", {name_of(NOISE[0])})
    again.put("job", name_of(NOISE[2]), NOISE[2])
    again.let_go("job", {name_of(NOISE[2])})
    again.put("job", name_of(NOISE[3]), NOISE[3])
    again.let_go("job", {name_of(NOISE[0]), name_of(NOISE[3])})
    assert "job" not in again.jobs()
    for data in NOISE[:2]:
        again.put("job", name_of(data), data)


def test_a_job_nobody_has_used_for_long_gives_way_to_a_block_and_one_in_use_does_not(
    ready: DirectoryReady,
) -> None:
    for data in NOISE[:2]:
        ready.put("job", name_of(data), data)
    with pytest.raises(ReadyFault, match="no room"):
        ready.put("new", name_of(NOISE[2]), NOISE[2])
    os.utime(ready.place / "job", (1, 1))
    ready.put("new", name_of(NOISE[2]), NOISE[2])
    assert ready.jobs() == ("new",)


def test_a_state_that_vanishes_while_it_is_measured_takes_no_room(
    ready: DirectoryReady, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready.put("job", name_of(NOISE[0]), NOISE[0])
    there = Path.exists

    def looked_at_too_early(path: Path) -> bool:
        found = there(path)
        if path.name == "blocks":
            shutil.rmtree(path, ignore_errors=True)
        return found

    monkeypatch.setattr(Path, "exists", looked_at_too_early)
    again = DirectoryReady(ready.place, limit_bytes=200_000)
    assert again.make_room("other", 200_000)
    assert again.jobs() == ("job", "other")


def shipped(vault: DirectoryVault, place: Path, parts: list[bytes], step: int) -> Manifest:
    place.mkdir(exist_ok=True)
    for number, data in enumerate(parts):
        (place / f"part{number}").write_bytes(data)
    label = CheckpointLabel(
        checkpoint_id=f"c{step}",
        job_id="job",
        epoch=1,
        step=step,
        progress=0.0,
        tier="app",
        created_s=0.0,
    )
    return ship_directory(vault, place, label)


def test_a_restore_takes_what_lies_here_and_fetches_the_rest(tmp_path: Path) -> None:
    ready = DirectoryReady(tmp_path / "states", limit_bytes=300_000)
    vault = DirectoryVault(tmp_path / "vault")
    first = shipped(vault, tmp_path / "work", NOISE[:3], 1)
    for entry in first.files:
        for name in entry.blocks:
            ready.put("job", name, vault.read_block(name))
    second = shipped(vault, tmp_path / "work", [*NOISE[:2], NOISE[4]], 2)
    asked: list[str] = []

    class Counting(DirectoryVault):
        def lend_block(self, block_hash: str) -> bytes | memoryview:
            asked.append(block_hash)
            return super().lend_block(block_hash)

    found = restore_from_ready(Counting(tmp_path / "vault"), ready, second, tmp_path / "restored")
    assert found == 2 * 70_000
    assert asked == [name_of(NOISE[4])]
    assert (tmp_path / "restored" / "part2").read_bytes() == NOISE[4]
    assert (tmp_path / "restored" / "part0").read_bytes() == NOISE[0]
