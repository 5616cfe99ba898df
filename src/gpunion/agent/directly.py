"""Blocks straight from the machine a job runs on, as long as it gives them; told when it does not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from gpunion.domain.peer import PeerPass
from gpunion.ports.peers import Peer, Peers, PeerTrouble
from gpunion.ports.ready import ReadyFault, ReadyStates


class DirectSource:
    """A context. After the first trouble nothing more is asked of that machine: the vault has it all."""

    def __init__(self, peers: Peers | None, ready: ReadyStates, job_id: str, given: PeerPass | None) -> None:
        self.direct_bytes = 0
        self.trouble = ""
        self._peers = peers
        self._ready = ready
        self._job_id = job_id
        self._given = given
        self._peer: Peer | None = None
        self._open = ExitStack()
        self._one_at_a_time = threading.Lock()

    def __enter__(self) -> DirectSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def names(self, cancelled: Callable[[], bool]) -> Iterator[str]:
        """Of what is being saved there, as it reaches the vault; none where it does not tell."""
        try:
            peer = self._met()
            if peer is not None:
                yield from peer.names(cancelled)
        except PeerTrouble as trouble:
            self._give_up(trouble)

    def read(self, name: str) -> bytes | None:
        """Verified, and not kept. None: ask the vault."""
        stored = self._fetched(name)
        try:
            return None if stored is None else self._ready.opened(self._job_id, name, stored)
        except ReadyFault as trouble:
            self._give_up(trouble)
            return None

    def keep(self, name: str) -> int | None:
        """Verified, and ready here from now on: how many bytes came. None: ask the vault."""
        stored = self._fetched(name)
        try:
            if stored is None:
                return None
            self._ready.put_stored(self._job_id, name, stored)
        except ReadyFault as trouble:
            self._give_up(trouble)
            return None
        return len(stored)

    def _fetched(self, name: str) -> bytes | None:
        with self._one_at_a_time:
            try:
                peer = self._met()
                stored = None if peer is None else peer.fetch(name)
            except PeerTrouble as trouble:
                self._give_up(trouble)
                return None
            self.direct_bytes += 0 if stored is None else len(stored)
            return stored

    def _met(self) -> Peer | None:
        """Not before something is wanted of it."""
        if self._peer is None and self._peers is not None and self._given is not None:
            self._peer = self._open.enter_context(self._peers.meet(self._job_id, self._given))
        return self._peer

    def _give_up(self, trouble: Exception) -> None:
        self.trouble, self._given, self._peer = str(trouble), None, None
