"""What of this machine others may have: blocks that lie ready here, of jobs that run here or did lately.

Only where the owner has opened a port for it (`data_port`). What a guest saves is then kept here as well as
sent to the vault, and the names of what has arrived there are told to whoever follows a last save.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

import structlog

from gpunion.vault.manifest import Manifest, ShipCancelled, Vault, VaultFault
from gpunion.vault.peers import Told
from gpunion.vault.ready import ReadyFault, ReadyStates

log = structlog.get_logger()

# Jobs whose secret is remembered; the one that came first is forgotten first.
JOBS_MOST = 256


@dataclass(slots=True)
class _Save:
    """Blocks of one save of a job, in the order they reached the vault."""

    number: int = 0
    names: list[str] = field(default_factory=list)
    over: bool = True  # before the first there is none under way


class PeerDesk:
    """Implements `vault.peers.Served`."""

    def __init__(
        self,
        ready: ReadyStates,
        *,
        is_open: Callable[[], bool],
        wire_is_free: Callable[[], bool],
        pace: Callable[[int], None],
        token: Callable[[str, str, str, float], str],
    ) -> None:
        """`is_open`: others may have anything. `wire_is_free`: blocks may go out, nothing more urgent has to.
        `token`: of a run's key, a job, a bearer and the end of a pass."""
        self._ready = ready
        self._is_open = is_open
        self._wire_is_free = wire_is_free
        self._pace = pace
        self._token = token
        self._keys: dict[str, str] = {}
        self._saves: dict[str, _Save] = {}
        self._news = threading.Condition()

    def allowed(self) -> bool:
        return self._is_open()

    def pace(self, sent_bytes: int) -> None:
        self._pace(sent_bytes)

    def token_of(self, job_id: str, bearer: str, until_s: float) -> str | None:
        key = self._keys.get(job_id)
        return None if key is None else self._token(key, job_id, bearer, until_s)

    def open_block(self, job_id: str, name: str) -> BinaryIO | None:
        if not self._wire_is_free():
            return None
        return self._ready.open_stored(job_id, name)

    def names(self, job_id: str, save: int | None, after: int, patience_s: float) -> Told:
        with self._news:
            current = self._saves.setdefault(job_id, _Save())
            if save is None:
                log.info("save_followed", job=job_id)
                save = current.number + 1 if current.over else current.number
            self._news.wait_for(lambda: self._new(job_id, save, after), timeout=patience_s)
            current = self._saves.get(job_id, current)
            if current.number != save:
                return Told(save, [], current.number > save)
            return Told(save, current.names[after:], current.over)

    def _new(self, job_id: str, save: int, after: int) -> bool:
        current = self._saves.get(job_id)
        if current is None or current.number != save:
            return current is None or current.number > save
        return current.over or len(current.names) > after

    # --- what this machine's own hands tell ------------------------------------------------------

    def welcome(self, job_id: str, run_key: str) -> None:
        if run_key:
            self._keys.pop(job_id, None)
            self._keys[job_id] = run_key
            while len(self._keys) > JOBS_MOST:
                self.forget(next(iter(self._keys)))

    def forget(self, job_id: str) -> None:
        self._keys.pop(job_id, None)
        self.ended(job_id)
        with self._news:
            self._saves.pop(job_id, None)

    def began(self, job_id: str) -> None:
        """A save is about to be sent."""
        with self._news:
            former = self._saves.get(job_id, _Save())
            self._saves[job_id] = _Save(number=former.number + 1, over=False)
            self._news.notify_all()

    def arrived(self, job_id: str, name: str) -> None:
        with self._news:
            self._saves.setdefault(job_id, _Save()).names.append(name)
            self._news.notify_all()

    def ended(self, job_id: str) -> None:
        with self._news:
            save = self._saves.get(job_id)
            if save is not None:
                save.over = True
                self._news.notify_all()


class KeepingVault:
    """A vault as one shipment sees it: what goes into it stays here too, and is told to who follows."""

    def __init__(self, vault: Vault, desk: PeerDesk, ready: ReadyStates, job_id: str) -> None:
        self._vault = vault
        self._desk = desk
        self._ready = ready
        self._job_id = job_id
        self._room = True
        self._kept: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        """Everything but `put` and `seal` is the vault's own."""
        return getattr(self._vault, name)

    def put(self, block_hash: str, data: bytes | memoryview, *, named: bool = False) -> int:
        stored_bytes = self._vault.put(block_hash, data, named=named)
        self._desk.arrived(self._job_id, block_hash)
        if self._room:
            try:
                self._ready.put(self._job_id, block_hash, data)
                self._kept.add(block_hash)
            except ReadyFault:
                self._room = False  # it was only a help
        return stored_bytes

    def seal(self, manifest: Manifest) -> None:
        self._vault.seal(manifest)
        # From here on it is durable, and nothing that happens on this disk may say otherwise.
        try:
            self._keep(manifest)
        except (OSError, VaultFault, ReadyFault) as trouble:
            log.warning("save_not_kept_ready", job=self._job_id, trouble=str(trouble))

    def _keep(self, manifest: Manifest) -> None:
        if self._ready.make_room(self._job_id, manifest.total_bytes):
            self._ready.keep_only(self._job_id, {n for entry in manifest.files for n in entry.blocks})
        else:
            self._ready.drop(self._job_id)

    def in_vain(self) -> None:
        """This shipment was cancelled: no checkpoint will name what of it stayed here."""
        self._ready.let_go(self._job_id, self._kept)


@contextmanager
def keeping(vault: Vault, desk: PeerDesk | None, ready: ReadyStates, job_id: str) -> Iterator[Vault]:
    """The vault to ship into. As it is where no port is open."""
    if desk is None:
        yield vault
        return
    desk.began(job_id)
    keeps = KeepingVault(vault, desk, ready, job_id)
    try:
        yield cast(Vault, keeps)
    except ShipCancelled:
        keeps.in_vain()
        raise
    finally:
        desk.ended(job_id)
