"""The modelled shelf: a restore moves what is missing, and never counts on more than there can be."""

from __future__ import annotations

from gpunion.domain.ids import CheckpointId, JobId
from gpunion.sim.machine.shelf import Shelf
from gpunion.sim.vault import ModelVault, Sealed


def sealed(vault: ModelVault, step: int, *, size: int = 100, added: int = 10, job: str = "job") -> Sealed:
    id = CheckpointId(f"{job}-c{step}")
    vault.seal(
        Sealed(checkpoint_id=id, job_id=JobId(job), epoch=1, step=step, size_bytes=size, added_bytes=added)
    )
    newest = vault.latest(JobId(job))
    assert newest is not None
    return newest


def test_of_a_copy_what_was_written_since_is_missing() -> None:
    vault, shelf = ModelVault(), Shelf()
    first = sealed(vault, 1, added=100)
    assert shelf.found(first) == 0
    shelf.put(first, fetched_bytes=100, found_bytes=0)
    assert shelf.found(first) == 100
    assert shelf.found(sealed(vault, 2)) == 90
    assert shelf.found(sealed(vault, 3)) == 80
    assert shelf.found(sealed(vault, 4, added=100)) == 0


def test_a_copy_that_was_broken_off_is_as_much_as_came() -> None:
    vault, shelf = ModelVault(), Shelf()
    first = sealed(vault, 1, added=100)
    shelf.put(first, fetched_bytes=40, found_bytes=0)
    assert shelf.take(first) == 40
    shelf.put(first, fetched_bytes=60, found_bytes=40)
    assert shelf.take(first) == 100
    assert (shelf.fetched_bytes, shelf.found_bytes, shelf.hits) == (100, 140, 2)
    shelf.drop(JobId("job"))
    assert shelf.take(first) == 0


def test_where_there_is_no_room_the_oldest_goes() -> None:
    vault, shelf = ModelVault(), Shelf(quota_bytes=150)
    one, other = sealed(vault, 1, job="one"), sealed(vault, 1, job="other")
    shelf.put(one, fetched_bytes=100, found_bytes=0)
    shelf.put(other, fetched_bytes=100, found_bytes=0)
    assert (shelf.found(one), shelf.found(other)) == (0, 100)


def test_what_was_fetched_on_the_heels_of_a_save_counts_once_that_is_sealed() -> None:
    vault, shelf = ModelVault(), Shelf()
    first = sealed(vault, 1, added=100)
    shelf.put(first, fetched_bytes=100, found_bytes=0)
    shelf.put_ahead(JobId("job"), 25)
    assert shelf.found(first) == 100  # not yet: of the save it is of nothing is sealed
    assert shelf.found(sealed(vault, 2, added=30)) == 95
    shelf.put(first, fetched_bytes=0, found_bytes=0)  # nothing of the base, as of who rewrites all of it
    shelf.put_ahead(JobId("job"), 100)
    assert shelf.found(sealed(vault, 3, added=100)) == 100


def test_what_was_saved_on_a_machine_that_keeps_it_was_never_moved() -> None:
    vault, shelf = ModelVault(), Shelf()
    shelf.keep(sealed(vault, 1, added=100))
    assert shelf.found(sealed(vault, 2)) == 90
    assert (shelf.copies, shelf.fetched_bytes) == (0, 0)
