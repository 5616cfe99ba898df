"""A vault may store a block as a difference from another; whoever reads must never notice."""

from __future__ import annotations

import threading

import pytest

from gpunion.ports.vault import CorruptBlock, MissingBlock, Vault
from tests.builders.checkpoints import name_of, sealed, series, state
from tests.contract.vault.conftest import Place


def test_every_state_of_a_long_series_comes_back(vault: Vault) -> None:
    stored = [manifest.new_bytes for manifest in series(vault, 12)]
    assert min(stored) < 0.9 * stored[0]
    for number in range(12):
        assert vault.read_block(name_of(state(number))) == state(number)
        assert bytes(vault.lend_block(name_of(state(number)))) == state(number)


def test_what_a_kept_difference_needs_outlives_its_own_checkpoint(place: Place) -> None:
    vault = place.open()
    series(vault, 4)
    vault.forget("job-1", keep=2)
    place.open().collect_garbage()
    for number in (2, 3):
        assert vault.read_block(name_of(state(number))) == state(number)


def test_what_a_held_difference_needs_is_no_garbage(place: Place) -> None:
    vault = place.open()
    series(vault, 5)
    with place.open().hold("job-1", "c1"):
        vault.forget("job-1", keep=2)
        place.open().collect_garbage()
        assert vault.read_block(name_of(state(1))) == state(1)


def test_a_difference_that_is_offered_again_still_needs_its_base(place: Place) -> None:
    """The base is of no sealed checkpoint: only the upload under way keeps both."""
    vault = place.open()
    vault.put(name_of(state(0)), state(0))
    vault.put(name_of(state(1)), state(1), name_of(state(0)))
    vault.begin("job-1", 1)
    assert vault.has([name_of(state(1))]) == {name_of(state(1))}
    place.open().collect_garbage()
    sealed(vault, {"w": state(1)})
    place.open().collect_garbage()
    assert vault.read_block(name_of(state(1))) == state(1)


@pytest.mark.parametrize("like", ["0" * 64, name_of(b"unlike")])
def test_a_wrong_hint_only_costs_space(vault: Vault, like: str) -> None:
    vault.put(name_of(b"unlike"), b"unlike")
    vault.put(name_of(state(0)), state(0), like)
    vault.put(name_of(state(0)), state(0), name_of(state(0)))
    assert vault.read_block(name_of(state(0))) == state(0)


def test_a_block_with_a_damaged_base_is_never_returned_and_both_can_be_stored_again(place: Place) -> None:
    vault = place.open()
    series(vault, 3)
    place.damage_block(name_of(state(0)))
    for number in (0, 1, 2):
        with pytest.raises((CorruptBlock, MissingBlock)):
            vault.read_block(name_of(state(number)))
    assert vault.has([name_of(state(number)) for number in range(3)]) == set()
    assert vault.put(name_of(state(0)), state(0), name_of(state(1))) > 0
    for number in range(3):
        assert vault.read_block(name_of(state(number))) == state(number)


def test_a_block_found_damaged_is_replaced_when_it_comes_along_again(place: Place) -> None:
    vault = place.open()
    sealed(vault, {"w": b"abc" * 100})
    place.damage_block(name_of(b"abc" * 100))
    with pytest.raises(CorruptBlock):
        vault.read_block(name_of(b"abc" * 100))
    sealed(place.open(), {"w": b"abc" * 100}, checkpoint_id="c2", step=11)
    assert vault.read_block(name_of(b"abc" * 100)) == b"abc" * 100
    assert vault.put(name_of(b"abc" * 100), b"abc" * 100) == 0


def test_many_threads_may_store_the_same_and_other_blocks_at_once(place: Place) -> None:
    vault = place.open()
    vault.begin("job-1", 1)
    faults: list[BaseException] = []

    def store(first: int) -> None:
        try:
            for number in range(first, first + 6):
                vault.put(name_of(state(number)), state(number), name_of(state(number - 1)))
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=store, args=(first,)) for first in (1, 1, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    for number in range(1, 10):
        assert vault.read_block(name_of(state(number))) == state(number)
