"""What is answered at a session's name by us, and to whom."""

from __future__ import annotations

import json
from typing import Any

import h11
import pytest

from gpunion.cli.sessions.origin import Site
from gpunion.cli.sessions.own_pages import OwnPages
from gpunion.cli.sessions.proving import QUESTION, Proof
from gpunion.sdk.errors import Unreachable

SITE = Site(name="course", port=20_001)
PROOF = Proof(site=SITE, url="https://campus.example", addresses=("127.0.0.1",), secret=b"s" * 32)


def asked(**headers: str) -> Any:
    lines = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return h11.Request(method="GET", target="/", headers=[("host", SITE.host), *lines])


def pages() -> OwnPages:
    return OwnPages(lambda: {"name": "course", "node": "lab-1", "token": "abc"}, PROOF)


@pytest.mark.parametrize("headers", [{}, {"authorization": "token abd"}, {"authorization": "token"}])
async def test_who_has_no_token_does_not_hear_how_the_session_is(headers: dict[str, str]) -> None:
    page = await pages().page("state.json", asked(**headers))
    assert page is not None
    assert page.status == 401
    assert b"lab-1" not in page.body


async def test_who_has_it_does_and_the_token_is_not_in_it() -> None:
    page = await pages().page("state.json", asked(authorization="token abc"))
    assert page is not None
    assert json.loads(page.body) == {"name": "course", "node": "lab-1"}


async def test_where_the_coordinator_never_answered_no_token_is_right() -> None:
    def away() -> dict[str, Any]:
        raise Unreachable("https://campus.example", "gone")

    page = await OwnPages(away, PROOF).page("state.json", asked(authorization="token"))
    assert page is not None
    assert page.status == 401


async def test_it_proves_whose_it_is_to_who_knows_the_secret() -> None:
    page = await pages().page("proof", asked(**{QUESTION: "why"}))
    assert page is not None
    assert page.body.decode() == PROOF.of("why")
