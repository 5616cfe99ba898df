"""Both ends of what a browser says to a session's server: each request and answer is taken apart and put
together anew, so that what the two would read differently reaches neither."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import h11

HEAD_MAX_BYTES = 64 * 1024
READ_BYTES = 64 * 1024

Read = Callable[[], Awaitable[bytes]]
Write = Callable[[bytes], Awaitable[None]]


class BadPeer(Exception):
    """What came is not HTTP, or its head has no end. `status`: what to say to it."""

    def __init__(self, words: str, status: int = 400) -> None:
        super().__init__(words)
        self.status = status


class HttpEnd:
    """One side of one connection."""

    def __init__(self, role: Any, read: Read, write: Write) -> None:
        self._http = h11.Connection(role, max_incomplete_event_size=HEAD_MAX_BYTES)
        self.raw_read, self.raw_write = read, write

    async def next(self) -> Any:
        """The next event. BadPeer says why there is none."""
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise BadPeer(str(error), error.error_status_hint or 400) from error
            if event is not h11.NEED_DATA:
                return event
            self._http.receive_data(await self.raw_read())

    async def body(self) -> AsyncIterator[bytes]:
        while True:
            event = await self.next()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise BadPeer("it ended in the middle of a message")

    async def send(self, event: Any) -> None:
        data = self._http.send(event)
        if data:
            await self.raw_write(data)

    @property
    def reusable(self) -> bool:
        """Both have said all; another request may follow."""
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    @property
    def ended(self) -> bool:
        return self._http.their_state is h11.CLOSED or self._http.our_state in (
            h11.MUST_CLOSE,
            h11.CLOSED,
            h11.ERROR,
        )

    def begin_anew(self) -> None:
        self._http.start_next_cycle()

    def rest(self) -> bytes:
        """What came after a switch to another protocol."""
        return bytes(self._http.trailing_data[0])


def header(message: Any, name: str) -> str | None:
    """The only one of that name. BadPeer: there are several."""
    found = [value for key, value in message.headers if key == name.encode()]
    if len(found) > 1:
        raise BadPeer(f"there are {len(found)} headers {name}")
    return found[0].decode("latin-1") if found else None
