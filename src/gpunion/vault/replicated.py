"""A job's vault in several places: sealed in the first that answers, copied to the others by somebody else.

What is read comes from whichever place has it sound. A place that does not answer is left out until the next
upload or restore; the vault is unavailable when none answers, or when what is asked for may lie in one that
does not.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from gpunion.text import by_number
from gpunion.vault.manifest import (
    BadManifest,
    CorruptBlock,
    Garbage,
    JobKey,
    Manifest,
    MissingBlock,
    UnknownCheckpoint,
    Vault,
    VaultDenied,
    VaultFault,
    VaultFull,
    VaultUnavailable,
)
from gpunion.vault.timeout_guard import Patience

T = TypeVar("T")
# These say something of a place and nothing of what is in it.
AWAY = (VaultUnavailable, VaultDenied)
# And these of what is in it; of several the last is told, which says the most.
UNREADABLE = (MissingBlock, CorruptBlock)


def at_once(_place: str, question: Callable[[], T]) -> T:
    """For what takes as long as it takes."""
    return question()


@dataclass(frozen=True, slots=True)
class NamedVault:
    name: str
    open: Callable[[], Vault]


class ReplicatedVault:
    """Implements `vault.manifest.Vault`. For one upload or one restore; another one asks every place anew."""

    def __init__(
        self,
        places: Sequence[NamedVault],
        patience: Patience | None = None,
        passed_over: Callable[[str, VaultFault], None] = lambda place, fault: None,
    ) -> None:
        """`patience` is shared with others that ask these places, so that each is waited for in vain once.
        `passed_over` hears of a place that others go on without."""
        self._places = list(places)
        self._patience = patience or Patience()
        self._passed_over = passed_over
        self._away: dict[str, VaultFault] = {}
        self._writer: NamedVault | None = None
        self._key: JobKey | None = None

    def describe(self) -> str:
        return " and ".join(place.name for place in self._places)

    def keyed(self, key: JobKey) -> ReplicatedVault:
        view = copy.copy(self)
        view._key = key
        return view

    def begin(self, job_id: str, epoch: int) -> None:
        """Fences every place that answers; the first of them takes the upload. OldEpoch of any is one.

        A place without room for so little takes no upload either, and keeps nobody from the others."""
        self._away.clear()
        full: list[VaultFull] = []

        def begin(place: NamedVault, vault: Vault) -> bool:
            try:
                vault.begin(job_id, epoch)
            except VaultFull as fault:
                fault.place = place.name
                full.append(fault)
                return False
            return True

        begun = [place for place, has_begun in self._each(begin) if has_begun]
        if not begun:
            raise full[0]
        for fault in full:
            self._passed_over(fault.place, fault)
        self._writer = begun[0]

    def has(self, hashes: Iterable[str]) -> set[str]:
        return self._of_writer(lambda vault: vault.has(hashes))

    def put(self, block_hash: str, data: bytes | memoryview, *, named: bool = False) -> int:
        return self._of_writer(lambda vault: vault.put(block_hash, data, named=named))

    def seal(self, manifest: Manifest) -> None:
        self._of_writer(lambda vault: vault.seal(manifest))

    def latest(self, job_id: str) -> Manifest | None:
        """Of where an upload goes, since it builds on that; else of all."""
        if self._writer is not None:
            return self._of_writer(lambda vault: vault.latest(job_id))
        found = self.manifests(job_id)
        return found[-1] if found else None

    def get(self, job_id: str, checkpoint_id: str) -> Manifest:
        trouble: VaultFault = UnknownCheckpoint(f"{job_id} has no checkpoint {checkpoint_id}")
        for place in self._places:
            try:
                return self._open(place).get(job_id, checkpoint_id)
            except UnknownCheckpoint:
                continue
            except BadManifest as fault:
                trouble = fault
            except AWAY as fault:
                self._away[place.name] = fault
        raise next(iter(self._away.values()), trouble)

    def manifests(self, job_id: str) -> tuple[Manifest, ...]:
        found = {
            manifest.checkpoint_id: manifest
            for _, manifests in self._each(lambda _, vault: vault.manifests(job_id))
            for manifest in manifests
        }
        return tuple(sorted(found.values(), key=_age))

    def read_block(self, block_hash: str) -> bytes:
        return bytes(self.lend_block(block_hash))

    def lend_block(self, block_hash: str) -> bytes | memoryview:
        trouble: VaultFault | None = None
        for place in self._places:
            if place.name in self._away:
                continue
            try:
                return self._open(place).lend_block(block_hash)
            except UNREADABLE as fault:
                trouble = max(filter(None, (trouble, fault)), key=lambda each: UNREADABLE.index(type(each)))
            except AWAY as fault:
                self._away[place.name] = fault
        raise next(iter(self._away.values()), trouble or MissingBlock(f"no place holds {block_hash}"))

    def waits_for_blocks(self) -> bool:
        """As the first place that answers: the others are asked for what it lacks."""
        for place in self._places:
            if place.name not in self._away:
                with suppress(*AWAY):
                    return self._open(place).waits_for_blocks()
        return True

    @contextmanager
    def hold(self, job_id: str, checkpoint_id: str) -> Iterator[None]:
        """In every place that has it."""
        with ExitStack() as held:
            holding = [self._held(held, place, job_id, checkpoint_id) for place in self._places]
            if not any(holding):
                raise next(
                    iter(self._away.values()),
                    UnknownCheckpoint(f"{job_id} has no checkpoint {checkpoint_id}"),
                )
            yield

    def forget(self, job_id: str, keep: int) -> tuple[str, ...]:
        # A bucket may look for garbage on this occasion, which takes its time.
        forgotten = self._each(lambda _, vault: vault.forget(job_id, keep), self._patience.have_done)
        return tuple(dict.fromkeys(name for _, names in forgotten for name in names))

    def collect_garbage(self, *, in_need: bool = False) -> Garbage:
        collected = self._each(lambda _, vault: vault.collect_garbage(in_need=in_need), at_once)
        found = [garbage for _, garbage in collected]
        return Garbage(
            blocks=sum(garbage.blocks for garbage in found),
            stored_bytes=sum(garbage.stored_bytes for garbage in found),
        )

    def _held(self, held: ExitStack, place: NamedVault, job_id: str, checkpoint_id: str) -> bool:
        hold: AbstractContextManager[None]
        try:
            hold = self._open(place).hold(job_id, checkpoint_id)
            held.enter_context(hold)
        except UnknownCheckpoint:
            return False
        except AWAY as fault:
            self._away[place.name] = fault
            return False
        return True

    def _of_writer(self, ask: Callable[[Vault], T]) -> T:
        """Trouble says whose it is: the next place may take the upload."""
        writer = self._writer or self._places[0]
        try:
            return ask(self._open(writer))
        except (VaultFull, *AWAY) as fault:
            fault.place = writer.name
            raise

    def _each(
        self,
        ask: Callable[[NamedVault, Vault], T],
        wait: Callable[[str, Callable[[], T]], T] | None = None,
    ) -> list[tuple[NamedVault, T]]:
        """The answers of those that answer, at least one."""
        wait = wait or self._patience.ask
        answers: list[tuple[NamedVault, T]] = []
        for place in self._places:
            try:
                answers.append((place, wait(place.name, partial(self._put, place, ask))))
                self._away.pop(place.name, None)
            except AWAY as fault:
                self._away[place.name] = fault
        if not answers:
            raise self._away[self._places[0].name]
        return answers

    def _put(self, place: NamedVault, ask: Callable[[NamedVault, Vault], T]) -> T:
        return ask(place, self._open(place))

    def _open(self, place: NamedVault) -> Vault:
        self._patience.check(place.name)
        vault = place.open()
        return vault if self._key is None else vault.keyed(self._key)


def _age(manifest: Manifest) -> tuple[int, int, tuple[str | int, ...]]:
    return manifest.epoch, manifest.step, by_number(manifest.checkpoint_id)
