"""Connections to the coordinator: a place for every newcomer, and who says nothing keeps none.

A request's head has to be whole within ten seconds of the connection or of the answer before. Whoever has
shown the gate who it is, is known from then on; of the others one gives way when all places are taken. What
arrives is looked at by turns (`turns`), and nothing of a body before the gate has said who sends it.
"""

from __future__ import annotations

import asyncio
import re
import resource
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame

from gpunion.coordinator.requests.inlet import PORTION_BYTES, Inlet
from gpunion.coordinator.requests.turned_away import TurnedAway
from gpunion.coordinator.requests.turns import Turns
from gpunion.vault.http.callers import Callers

HEAD_LIMIT_S = 10.0
# Some 20 kB of memory each. A campus of a thousand machines has a few thousand connections.
PLACES_MAX = 16_384
STRANGERS_MAX = 4096
# Of the files that may be open: for the database, the vault's blocks, and those that are just accepted.
ACCEPTED_AT_ONCE = 128
RESERVED_FILES = 512
# Those that wait to be accepted take no file yet.
WAITING_MAX = 4096
# What the gate finds in a request's scope.
LINE = "line"
# As the reader of heads has it.
END_OF_HEAD = re.compile(rb"\n\r?\n")
# Of one message: its size says nothing of how many parts of no bytes it may have.
PARTS_MAX = 4096


class Line(Protocol):
    """A connection, as the gate knows it. Nothing of a request's body is looked at before it is let pass."""

    def know(self, name: str, most: int | None) -> None:
        """It has shown who it is. `most`: as many connections may have this name."""
        ...

    def let_pass(self) -> None: ...

    async def turn_away(self, said_bytes: int | None) -> None:
        """Returns when as much of the body as the sender announced has gone by (None: it did not say)."""
        ...


def raise_file_limit() -> int:
    """As far as the system allows; how many files may be open then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return PLACES_MAX + RESERVED_FILES if hard == resource.RLIM_INFINITY else hard


def places_of(files: int) -> int:
    return min(PLACES_MAX, files - min(RESERVED_FILES, files // 2))


def http_protocol(places: int, head_limit_s: float = HEAD_LIMIT_S) -> Callable[..., asyncio.Protocol]:
    """What uvicorn makes one of for each connection."""
    callers: Callers[_Line] = Callers(places, strangers_most=STRANGERS_MAX, known_give_way=True)
    turns = Turns(lambda call: asyncio.get_running_loop().call_soon(call))
    return partial(_HttpLine, callers=callers, turns=turns, head_limit_s=head_limit_s)


class _Line:
    def __init__(self, callers: Callers[_Line], transport: asyncio.Transport) -> None:
        self._callers = callers
        self._transport = transport
        self.protocol: _HttpLine | _SocketLine | None = None
        peer = transport.get_extra_info("peername")
        self.belongs_to = address = str(peer[0]) if peer else ""
        leaver = callers.come(self, address)
        if leaver is not None:
            leaver.hang_up()

    def know(self, name: str, most: int | None) -> None:
        leaver = self._callers.know(self, name, most)
        if leaver is not None:
            leaver.hang_up()
        self.belongs_to = name

    def let_pass(self) -> None:
        if self.protocol is not None:
            self.protocol.let_pass()

    async def turn_away(self, said_bytes: int | None) -> None:
        if isinstance(self.protocol, _HttpLine):
            await self.protocol.turn_away(said_bytes)

    def gone(self) -> None:
        self._callers.go(self)

    def hang_up(self) -> None:
        """At once: who reads nothing would else keep its place for as long as there is something to send."""
        self._transport.abort()


class _Flow(FlowControl):
    def __init__(self, transport: asyncio.Transport, resumed: Callable[[], None]) -> None:
        super().__init__(transport)
        self._resumed = resumed

    def resume_reading(self) -> None:
        super().resume_reading()
        self._resumed()


class _HttpLine(H11Protocol):
    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        callers: Callers[_Line],
        turns: Turns,
        head_limit_s: float,
    ) -> None:
        super().__init__(config, server_state, dict(app_state), _loop)
        self._callers = callers
        self._turns = turns
        self._head_limit_s = head_limit_s
        self._head_timer: asyncio.TimerHandle | None = None
        self._line: _Line | None = None
        self._let_pass = False  # the request whose head came last
        self._away: TurnedAway | None = None
        self._end_of_head = b""  # what was looked at last of a head that is not whole

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state[LINE] = self._line = line = _Line(self._callers, transport)
        line.protocol = self
        self._inlet = Inlet(
            self._turns,
            transport,
            belongs_to=lambda: line.belongs_to,
            size_of_next=self._size_of_next,
            look_at=self._look_at,
            is_full=lambda: self.flow.read_paused,
        )
        self.flow = _Flow(transport, self._inlet.look)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        self._inlet.close()
        if self._away is not None:
            self._away.gone()
        self._gone()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._away is not None:
            self._away.passes(data)
        else:
            self._inlet.came(data)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._let_pass, self._end_of_head = False, b""

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # What was sent ahead may be under way already.
        if self.cycle.response_complete and not self.transport.is_closing():
            self._expect_head()
        self._inlet.look()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._head_came()
        assert self._line is not None
        self.ws_protocol_class = cast(
            Any,
            partial(
                _SocketLine,
                line=self._line,
                turns=self._turns,
                gone=self._gone,
                patient=b"/stream?" in bytes(event.target),
            ),
        )
        super().handle_websocket_upgrade(event)
        socket = cast(_SocketLine, self.transport.get_protocol())
        socket.data_received(self._inlet.take_rest())

    def let_pass(self) -> None:
        self._let_pass = True
        self._inlet.look()

    async def turn_away(self, said_bytes: int | None) -> None:
        self._away = TurnedAway(said_bytes)
        self._away.passes(self._inlet.take_rest())
        self.transport.resume_reading()
        await self._away.over()

    def _size_of_next(self, waiting: bytearray) -> int:
        """A head to its end, and of a body nothing before the gate has said who sends it."""
        theirs = self.conn.their_state
        if theirs is h11.IDLE:
            before = len(self._end_of_head)
            end = END_OF_HEAD.search(self._end_of_head + waiting[:PORTION_BYTES])
            return PORTION_BYTES if end is None else max(1, end.end() - before)
        if theirs is h11.SEND_BODY:
            return PORTION_BYTES if self._let_pass and not self.flow.read_paused else 0
        # It is sent ahead, and waits for the answer before it; or nobody is there to answer any more.
        return 0

    def _look_at(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE:
            self._end_of_head = (self._end_of_head + data)[-3:]
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._head_came()

    def _gone(self) -> None:
        if self._line is not None:
            self._line.gone()

    def _expect_head(self) -> None:
        self._head_came()
        self._head_timer = self.loop.call_later(self._head_limit_s, self.transport.abort)

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _SocketLine(WebSocketsSansIOProtocol):
    def __init__(
        self,
        *arguments: Any,
        line: _Line,
        turns: Turns,
        gone: Callable[[], None],
        patient: bool,
        **more: Any,
    ) -> None:
        """`patient`: it may be silent for long, as whoever reads a stream may be slow."""
        super().__init__(*arguments, **more)
        self._line = line
        self._turns = turns
        self._gone = gone
        if patient:
            self.ping_timeout = None
        self._let_pass = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._line.protocol = self
        self._inlet = Inlet(
            self._turns,
            transport,
            belongs_to=lambda: self._line.belongs_to,
            size_of_next=self._size_of_next,
            look_at=super().data_received,
            is_full=lambda: self.read_paused,
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._inlet.close()
        self._gone()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.handshake_initiated:  # the head, which brought it here
            super().data_received(data)
        elif data:
            self._inlet.came(data)

    async def receive(self) -> Any:
        message = await super().receive()
        self._inlet.look()
        return message

    def resume_writing(self) -> None:
        super().resume_writing()
        self._inlet.look()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= PARTS_MAX:
            self.transport.abort()
        else:
            super().handle_cont(event)

    def let_pass(self) -> None:
        self._let_pass = True
        self._inlet.look()

    def _size_of_next(self, _waiting: bytearray) -> int:
        """Nothing while what came before is not taken, or while it reads no answers: not to a ping either."""
        if self.close_sent:
            return PORTION_BYTES
        if not self._let_pass or self.read_paused or not self.writable.is_set():
            return 0
        return PORTION_BYTES
