"""The port to states that lie ready on this machine: blocks of jobs that may come, or come back.

Never durable and never needed: anything in it may be gone at any moment, and whatever is read is verified.
What is not here is fetched from the vault. Calls block, from any number of threads.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO, Protocol


class ReadyFault(Exception):
    """This machine's disk would not do it, or its owner gives too little of it."""


class ReadyStates(Protocol):
    def lacking(self, job_id: str, names: Collection[str]) -> set[str]:
        """Those that are not here, or damaged. The others become young."""
        ...

    def put(self, job_id: str, name: str, data: bytes | memoryview) -> None:
        """`ReadyFault`: more than the owner gives, no room, or these are not the bytes of that name."""
        ...

    def put_stored(self, job_id: str, name: str, stored: bytes) -> None:
        """The same of one as another machine stores it."""
        ...

    def opened(self, job_id: str, name: str, stored: bytes) -> bytes:
        """What is in one as another machine stores it, verified. It is not kept. `ReadyFault`."""
        ...

    def read(self, job_id: str, name: str) -> bytes | None:
        """Verified. None: not here, or damaged."""
        ...

    def open_stored(self, job_id: str, name: str) -> BinaryIO | None:
        """As it is stored, to be sent as it is: whoever gets it verifies it."""
        ...

    def keep_only(self, job_id: str, names: Collection[str]) -> None:
        """Of this job, nothing else is of use any more."""
        ...

    def let_go(self, job_id: str, names: Collection[str]) -> None:
        """Of this job, these are of no use any more."""
        ...

    def make_room(self, job_id: str, size_bytes: int) -> bool:
        """Lets go of the jobs that were not used for longest. False: it is more than the owner gives."""
        ...

    def drop(self, job_id: str) -> None: ...

    def jobs(self) -> tuple[str, ...]: ...

    @property
    def place(self) -> Path: ...
