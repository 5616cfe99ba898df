"""Two who store the same block at once: what is whole stays whole for who took it for a base."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from blake3 import blake3

from gpunion.adapters.files import coding
from gpunion.adapters.files.directory import DirectoryVault
from gpunion.adapters.files.forms import PLAIN, Base
from gpunion.adapters.files.operations import FileOperations
from gpunion.ports.vault import CorruptBlock, JobKey, MissingBlock, VaultFault
from tests.builders.vaults import state

KEY = JobKey(job_id="job-1", secret=bytes(32))


def name_of(data: bytes) -> str:
    return str(blake3(data).hexdigest())


class Overtaken(FileOperations):
    """Before the first difference gets its name, another does something."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile: Callable[[], object] | None = meanwhile

    def take_name(self, source: Path, target: Path) -> None:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        super().take_name(source, target)


class WithoutSecondNames(FileOperations):
    """As file systems are that come from elsewhere."""

    def take_name(self, source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")


def put(vault: DirectoryVault, number: int, like: int | None = None) -> int:
    return vault.put(name_of(state(number)), state(number), None if like is None else name_of(state(like)))


def base_of(vault: DirectoryVault, number: int) -> str | None:
    return vault.blocks.head(vault.packing.name(name_of(state(number)))).base


def test_a_difference_does_not_replace_what_another_stored_whole_meanwhile(tmp_path: Path) -> None:
    other = DirectoryVault(tmp_path)

    def store_whole_and_build_on_it() -> None:
        put(other, 1)
        put(other, 2, like=1)

    vault = DirectoryVault(tmp_path, operations=Overtaken(store_whole_and_build_on_it))
    put(vault, 0)
    assert put(vault, 1, like=0) == 0
    assert base_of(vault, 1) is None
    assert base_of(vault, 2) == name_of(state(1))
    for number in range(3):
        assert vault.read_block(name_of(state(number))) == state(number)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_copied_difference_does_not_replace_it_either(tmp_path: Path) -> None:
    source = DirectoryVault(tmp_path / "source")
    put(source, 0)
    put(source, 1, like=0)
    assert base_of(source, 1) == name_of(state(0))
    other = DirectoryVault(tmp_path / "copy")
    vault = DirectoryVault(tmp_path / "copy", operations=Overtaken(lambda: put(other, 1)))
    put(vault, 0)
    stored = source.blocks.read_stored(name_of(state(1)))
    assert vault.blocks.put_stored(name_of(state(1)), stored) == 0
    assert base_of(vault, 1) is None


def test_nor_does_one_of_a_job_whose_key_is_elsewhere(tmp_path: Path) -> None:
    source = DirectoryVault(tmp_path / "source").keyed(KEY)
    put(source, 0)
    put(source, 1, like=0)
    names = [source.packing.name(name_of(state(number))) for number in (0, 1)]
    stored = [source.blocks.read_stored(name) for name in names]
    other = DirectoryVault(tmp_path / "copy").keyed(KEY)
    vault = DirectoryVault(tmp_path / "copy", operations=Overtaken(lambda: put(other, 1)))
    foreign = vault.foreign_blocks(KEY.job_id)
    for name, data in zip(names, stored, strict=True):
        foreign.put_stored(name, data)
    assert foreign.head(names[1]).base is None


def test_where_a_file_has_one_name_only_blocks_are_stored_whole(tmp_path: Path) -> None:
    vault = DirectoryVault(tmp_path, operations=WithoutSecondNames())
    put(vault, 0)
    assert put(vault, 1, like=0) > 0
    assert base_of(vault, 1) is None
    assert vault.read_block(name_of(state(1))) == state(1)


def test_there_a_copy_of_a_job_whose_key_is_elsewhere_stays_a_difference(tmp_path: Path) -> None:
    source = DirectoryVault(tmp_path / "source").keyed(KEY)
    put(source, 0)
    put(source, 1, like=0)
    vault = DirectoryVault(tmp_path / "copy", operations=WithoutSecondNames())
    foreign = vault.foreign_blocks(KEY.job_id)
    for name in [source.packing.name(name_of(state(number))) for number in (0, 1)]:
        assert foreign.put_stored(name, source.blocks.read_stored(name)) > 0
    assert vault.keyed(KEY).read_block(name_of(state(1))) == state(1)


def test_what_is_called_present_can_be_read_however_long_its_chain_is(tmp_path: Path) -> None:
    vault = DirectoryVault(tmp_path)
    stored = bytes(coding._pack_as(state(0), PLAIN))  # of another form than what builds on it
    for number in range(2 * coding.CHAIN_MAX):
        path = vault.blocks.path(name_of(state(number)))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(stored)
        present = vault.has([name_of(state(number))])
        try:
            assert vault.read_block(name_of(state(number))) == state(number)
        except (CorruptBlock, MissingBlock):
            assert number
            assert not present
        base = Base(name=name_of(state(number)), data=state(number), distance=number + 1)
        stored = coding.encode(state(number + 1), base)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_other_trouble_with_a_name_is_told(tmp_path: Path, error: int) -> None:
    class Failing(FileOperations):
        def take_name(self, source: Path, target: Path) -> None:
            raise OSError(error, "no")

    vault = DirectoryVault(tmp_path, operations=Failing())
    put(vault, 0)
    with pytest.raises(VaultFault):
        put(vault, 1, like=0)
    assert list((tmp_path / "tmp").iterdir()) == []
