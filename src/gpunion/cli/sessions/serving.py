"""Serves a session on the user's loopback until they have enough or it is over."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from gpunion.cli.campus import Campus, Json
from gpunion.cli.exits import CONFLICT, Trouble
from gpunion.cli.sessions.forwarder import Forwarder
from gpunion.cli.sessions.listening import listen, loopback
from gpunion.cli.sessions.origin import Site
from gpunion.cli.sessions.own_pages import OwnPages, has_front
from gpunion.cli.sessions.proving import Proof
from gpunion.sdk.errors import Unreachable
from gpunion.sdk.streams import Streams

# The same for a name each time, so that its address stays the same; not where systems choose ports from.
FIRST_PORT, PORTS = 20_000, 10_000
LOOK_S = 0.5
HANG_UP_BYTES = 1024  # nothing of whoever comes before there is a session is read


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


def address_to_open(site: Site, session: Json) -> str:
    """The token stands behind the #, which no browser sends anywhere."""
    if has_front():
        return f"{site.origin}/.gpunion/#{session['token']}"
    return f"{site.origin}/lab?token={session['token']}"


async def serve(proof: Proof, campus: Campus, streams: Streams, told: Told) -> Json:
    """Returns the session once it is over. Trouble where the port is taken."""
    site = proof.site
    pages = OwnPages(lambda: campus.session(site.name), proof)
    forwarder = Forwarder(site, lambda: streams.to_session(site.name, "lab"), pages.page)
    try:
        listening = await forwarder.listen()
    except OSError as error:
        name = site.name
        next_step = (
            f"the session goes on: gpunion notebook --name {name} --port PORT opens it at another, "
            f"gpunion sessions end {name} ends it"
        )
        raise _taken(site, error, next_step) from error
    async with listening:
        return await _follow(site, campus, told)


async def check_free(site: Site) -> None:
    """Before there is a session, which would hold a GPU without anybody who can see it."""

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    try:
        listening = await listen(hang_up, loopback(), site.port, limit=HANG_UP_BYTES)
    except OSError as error:
        raise _taken(site, error, "Nothing was begun; choose another: --port PORT") from error
    await listening.close()


async def _follow(site: Site, campus: Campus, told: Told) -> Json:
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
                told.ready(address_to_open(site, session), session)
        await asyncio.sleep(LOOK_S)


async def _asked(campus: Campus, name: str) -> Json | None:
    """None while the coordinator is away: the page waits, and so does this."""
    try:
        return await asyncio.to_thread(campus.session, name)
    except Unreachable:
        return None


def _taken(site: Site, error: OSError, next_step: str) -> Trouble:
    return Trouble(
        f"port {site.port} of this machine cannot be listened at",
        why=error.strerror or str(error),
        next_step=next_step,
        code=CONFLICT,
    )
