"""One sender has so many requests under way; a body is let pass unread where nobody wants it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpunion.coordinator.requests.at_once import AtOnce, NotTaken, hurried
from gpunion.coordinator.requests.turned_away import LAST_CHUNK, TurnedAway


async def test_of_one_sender_so_many_are_under_way_and_others_do_not_wait_for_them() -> None:
    at_once, here, most = AtOnce(3), [0], [0]
    end = asyncio.Event()

    async def ask(name: str) -> None:
        async with at_once.one_of(name):
            here[0] += 1
            most[0] = max(most[0], here[0])
            await end.wait()
            here[0] -= 1

    flood = [asyncio.create_task(ask("flood")) for _ in range(50)]
    await asyncio.sleep(0)
    other = asyncio.create_task(ask("other"))
    await asyncio.sleep(0)
    assert here[0] == 4
    flood.pop().cancel()  # one that waits
    end.set()
    await asyncio.gather(other, *flood)
    assert most[0] == 4
    assert at_once._senders == {}


async def test_a_body_that_stops_coming_and_an_answer_nobody_takes_do_not_last() -> None:
    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    receive, send = hurried(never, never, limit_s=0.01)
    with pytest.raises(NotTaken):
        await receive()
    with pytest.raises(NotTaken):
        await send({"type": "http.response.body"})


async def test_who_listens_whether_its_reader_is_gone_listens_for_as_long_as_it_likes() -> None:
    said = [{"type": "http.request", "body": b"x", "more_body": True}, {"type": "http.request", "body": b""}]
    gone = asyncio.Event()

    async def receive() -> Any:
        if said:
            return said.pop(0)
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(_: Any) -> None: ...

    receiving, _ = hurried(receive, send, limit_s=0.01)
    await receiving()
    await receiving()
    listening = asyncio.ensure_future(receiving())
    await asyncio.sleep(0.05)
    assert not listening.done()
    gone.set()
    assert (await listening)["type"] == "http.disconnect"


async def test_who_is_turned_away_is_waited_for_until_all_it_announced_has_gone_by() -> None:
    away = TurnedAway(10)
    over = asyncio.create_task(away.over())
    away.passes(b"12345")
    await asyncio.sleep(0)
    assert not over.done()
    away.passes(b"67890")
    await over


async def test_chunks_end_with_the_last_one_also_where_it_comes_in_pieces() -> None:
    away = TurnedAway(None)
    over = asyncio.create_task(away.over())
    away.passes(b"5\r\nhello\r\n" + LAST_CHUNK[:2])
    await asyncio.sleep(0)
    assert not over.done()
    away.passes(LAST_CHUNK[2:])
    await over


async def test_nobody_is_waited_for_who_is_gone_or_never_ends() -> None:
    away = TurnedAway(10**12)
    away.gone()
    await away.over()
    endless = TurnedAway(None)
    for _ in range(65):
        endless.passes(b"x" * 1024**2)
    await endless.over()
