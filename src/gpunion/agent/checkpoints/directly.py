"""Blocks straight from the machine a job runs on, as long as it gives them; told when it does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from gpunion.domain.passes import PeerPass
from gpunion.vault.peers import Peer, Peers, PeerTrouble
from gpunion.vault.ready import ReadyFault, ReadyStates

# A machine that gives less than this is left in peace: one block at a time comes from it, and the vault gives
# several at once. Not judged before it has been asked for so long in all.
FLOOR_BPS = 80e6
JUDGED_AFTER_S = 10.0


class DirectSource:
    """A context. After the first trouble nothing more is asked of that machine: the vault has it all."""

    def __init__(
        self,
        peers: Peers | None,
        ready: ReadyStates,
        job_id: str,
        given: PeerPass | None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.direct_bytes = 0
        self.trouble = ""
        self._peers = peers
        self._ready = ready
        self._job_id = job_id
        self._given = given
        self._now_s = now_s
        self._asked_for_s = 0.0
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
            began_s = self._now_s()
            try:
                peer = self._met()
                stored = None if peer is None else peer.fetch(name)
            except PeerTrouble as trouble:
                self._give_up(trouble)
                return None
            if stored is not None:
                self._asked_for_s += self._now_s() - began_s
                self.direct_bytes += len(stored)
                self._judge()
            return stored

    def _judge(self) -> None:
        given_bits = 8 * self.direct_bytes
        if self._asked_for_s >= JUDGED_AFTER_S and given_bits < FLOOR_BPS * self._asked_for_s:
            rate_mbps = given_bits / self._asked_for_s / 1e6
            self._give_up(PeerTrouble(f"only {rate_mbps:.1f} Mb/s came from there, so the vault is asked"))

    def _met(self) -> Peer | None:
        """Not before something is wanted of it."""
        if self._peer is None and self._peers is not None and self._given is not None:
            self._peer = self._open.enter_context(self._peers.meet(self._job_id, self._given))
        return self._peer

    def _give_up(self, trouble: Exception) -> None:
        self.trouble, self._given, self._peer = str(trouble), None, None
