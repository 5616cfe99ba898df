"""Long bodies of requests: laid down in a file as they come, so that memory holds rows of one and no more."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, cast

from starlette.requests import Request


class NoRoomForBody(Exception):
    """A body that is laid down in a file finds no room there."""


# Shorter ones stay in memory, and are worked on at once: saves of a whole floor must not wait for each other.
SHORT_BYTES = 1024**2


@dataclass(slots=True)
class Bodies:
    folder: Path | None = None  # on a disk with room; None: where the system has temporary files
    # What is read of a long one takes a few times its size.
    _long_one: asyncio.Lock = field(default_factory=asyncio.Lock)
    # To be held while all manifests of a job are read for an answer: each may be as long as a body.
    answering: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def of(self, request: Request) -> AsyncIterator[BinaryIO]:
        """From its beginning. Of long ones one at a time is worked on. How long it may be the gate counts."""
        with SpooledTemporaryFile(
            max_size=SHORT_BYTES, dir=None if self.folder is None else str(self.folder)
        ) as file:
            size_bytes = 0
            try:
                async for piece in request.stream():
                    size_bytes += file.write(piece)
                file.seek(0)
            except OSError as error:
                raise _no_room(error) from error
            body = cast(BinaryIO, file)
            if size_bytes <= SHORT_BYTES:
                yield body
                return
            async with self._long_one:
                yield body


def _no_room(error: OSError) -> NoRoomForBody:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        raise error
    detail = "the coordinator's disk has no room for what was sent"
    return NoRoomForBody(detail)
