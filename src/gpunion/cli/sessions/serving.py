"""Serves a session on the user's loopback until they have enough or it is over."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from gpunion.cli.campus import Campus, Json
from gpunion.cli.exits import CONFLICT, Trouble
from gpunion.cli.sessions.forwarder import HERE, Forwarder
from gpunion.cli.sessions.origin import Site
from gpunion.cli.sessions.own_pages import FRONT, OwnPages
from gpunion.sdk.errors import Unreachable
from gpunion.sdk.streams import Streams

# The same for a name each time, so that its address stays the same; not where systems choose ports from.
FIRST_PORT, PORTS = 20_000, 10_000
LOOK_S = 0.5
PROBE_LIMIT_S = 5.0
PROBE_BYTES_MAX = 1 << 16


def port_for(name: str) -> int:
    """Not what another user of this machine gets for that name."""
    name = f"{os.getuid()} {name}"
    return FIRST_PORT + int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % PORTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Who hears how the session is."""

    changed: Callable[[Json], None]  # in words: where it is, what it waits for
    ready: Callable[[str, Json], None]  # with the address to open


def site_of(name: str, port: int | None) -> Site:
    return Site(name=name, port=port or port_for(name))


def address_to_open(site: Site, session: Json, pages: OwnPages) -> str:
    """The token stands behind the #, which no browser sends anywhere."""
    if pages.has(FRONT):
        return f"{site.origin}/.gpunion/#{session['token']}"
    return f"{site.origin}/lab?token={session['token']}"


async def serve(site: Site, campus: Campus, streams: Streams, told: Told) -> Json:
    """Returns the session once it is over. Trouble where the port is taken."""
    pages = OwnPages(lambda: campus.session(site.name))
    forwarder = Forwarder(site, lambda: streams.to_session(site.name, "lab"), pages.page)
    try:
        server = await forwarder.listen()
    except OSError as error:
        name = site.name
        next_step = (
            f"the session goes on: gpunion notebook --name {name} --port PORT opens it at another, "
            f"gpunion sessions end {name} ends it"
        )
        raise _taken(site, error, next_step) from error
    async with server:
        return await _follow(site, campus, pages, told)


async def check_free(site: Site) -> None:
    """Before there is a session, which would hold a GPU without anybody who can see it."""
    try:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), HERE, site.port)
    except OSError as error:
        raise _taken(site, error, "Nothing was begun; choose another: --port PORT") from error
    server.close()
    await server.wait_closed()


async def _follow(site: Site, campus: Campus, pages: OwnPages, told: Told) -> Json:
    was_ready, where = False, ""
    while True:
        session = await _asked(campus, site.name)
        if session is not None:
            if session["ended_at"]:
                return session
            if session["where"] != where:
                where = session["where"]
                told.changed(session)
            if session["ready"] and not was_ready:
                was_ready = True
                told.ready(address_to_open(site, session, pages), session)
        await asyncio.sleep(LOOK_S)


async def _asked(campus: Campus, name: str) -> Json | None:
    """None while the coordinator is away: the page waits, and so does this."""
    try:
        return await asyncio.to_thread(campus.session, name)
    except Unreachable:
        return None


async def served_already(site: Site) -> bool:
    """Whether a forwarder of this session stands at its port: a second one would be no other."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(PROBE_LIMIT_S):
            reader, writer = await asyncio.open_connection(HERE, site.port)
            request = f"GET /.gpunion/state.json HTTP/1.1\r\nHost: {site.host}\r\nConnection: close\r\n\r\n"
            writer.write(request.encode())
            try:
                return await _says_its_name(reader, site)
            finally:
                writer.close()
    return False


async def _says_its_name(reader: asyncio.StreamReader, site: Site) -> bool:
    """An answer comes in as many pieces as it likes: head and body are seldom one."""
    answer, name = b"", f'"name": "{site.name}"'.encode()
    while len(answer) < PROBE_BYTES_MAX and (piece := await reader.read(PROBE_BYTES_MAX)):
        answer += piece
        if answer.startswith(b"HTTP/1.1 200") and name in answer:
            return True
    return False


def _taken(site: Site, error: OSError, next_step: str) -> Trouble:
    return Trouble(
        f"port {site.port} of this machine cannot be listened at",
        why=error.strerror or str(error),
        next_step=next_step,
        code=CONFLICT,
    )
