"""The port to other machines' blocks, and to what of ours they may have.

A help and never needed: whatever a peer does not give, or cannot, is in the vault. What it gives is verified
by whoever takes it. Calls block.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol


class Pass(Protocol):
    """What one machine shows another: which one may be asked, by whom and until when."""

    @property
    def address(self) -> str:
        """host:port"""
        ...

    @property
    def node_id(self) -> str: ...

    @property
    def bearer(self) -> str: ...

    @property
    def until_s(self) -> float:
        """Unix time."""
        ...

    @property
    def token(self) -> str: ...


def proof_of(token: str, nonce: str) -> str:
    """What the bearer shows for the question it was asked: that it has the token, without showing it."""
    return hmac.new(bytes.fromhex(token), f"proof {nonce}".encode(), "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Told:
    save: int
    names: list[str]
    over: bool  # these are the last of it


class PeerTrouble(Exception):
    """The other machine cannot be reached, does not take the pass, or broke off. Ask the vault."""


class Peer(Protocol):
    """An open connection to one machine about one job. Not for two threads at once."""

    def fetch(self, name: str) -> bytes | None:
        """A block as it is stored there; None: not there. Goes on where a broken connection left it."""
        ...

    def names(self, cancelled: Callable[[], bool]) -> Iterator[str]:
        """Blocks that its last save has brought into the vault, as they arrive there; ends with the save."""
        ...


class Peers(Protocol):
    def meet(self, job_id: str, given: Pass) -> AbstractContextManager[Peer]:
        """PeerTrouble, here and in every call on what it gives."""
        ...


class BlockServing(Protocol):
    """Listens for others from `start` to `close`."""

    @property
    def address(self) -> str: ...

    def start(self) -> None: ...

    def close(self) -> None: ...


class Served(Protocol):
    """What others may have of this machine, as its agent knows it. Any number of threads."""

    def allowed(self) -> bool:
        """False: the owner has the machine; nothing of a guest goes out."""
        ...

    def token_of(self, job_id: str, bearer: str, until_s: float) -> str | None:
        """Of the pass that would be good; None: nothing of that job is here."""
        ...

    def open_block(self, job_id: str, name: str) -> BinaryIO | None:
        """None: not here, or not to be given now."""
        ...

    def names(self, job_id: str, save: int | None, after: int, patience_s: float) -> Told:
        """Blocks of a save beyond the first `after`; of the one under way, or the next, where that is None.

        Waits a while for some to come."""
        ...

    def pace(self, sent_bytes: int) -> None:
        """Called for every piece that went out; may wait."""
        ...
