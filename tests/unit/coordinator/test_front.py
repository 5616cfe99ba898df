"""What a browser finds at the coordinator's address, and what programs still find there."""

from __future__ import annotations

import base64
import hashlib
import re

import httpx
import pytest

from gpunion.coordinator.api.gate import wants_page
from gpunion.coordinator.app import make_app

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


async def fetch(accept: str, method: str = "GET", **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=make_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://campus.example:8765") as client:
        return await client.request(method, "/", headers={"accept": accept, **headers})


async def test_a_browser_finds_how_to_lend_and_how_to_run_against_this_very_address() -> None:
    page = await fetch(BROWSER, **{"x-forwarded-proto": "https"})
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "curl -fsS https://campus.example:8765/install.sh |\n  sh -s -- --token TOKEN" in page.text
    assert "campus=https://campus.example:8765\npip install" in page.text
    assert "https://campus.example:8765/api/v1/openapi.json" in page.text
    assert "@" not in page.text.replace("[cli] @ $campus", "").replace("@media", "")


async def test_the_page_runs_nothing_and_loads_nothing_and_says_so_to_the_browser() -> None:
    page = await fetch(BROWSER)
    [style] = re.findall("<style>(.*?)</style>", page.text, re.DOTALL)
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = page.headers["content-security-policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{hashed}';")
    assert page.headers["x-content-type-options"] == "nosniff"
    foreign = r"<(script|link|img|form|iframe)|\s(on\w+|src|href|style)=|url\(|@import"
    assert not re.search(foreign, page.text)


async def test_the_page_is_asked_about_each_time_and_not_sent_twice() -> None:
    page = await fetch(BROWSER)
    assert page.headers["cache-control"] == "no-cache"
    assert "Accept" in page.headers["vary"]
    again = await fetch(BROWSER, **{"if-none-match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert (await fetch(BROWSER, "HEAD")).status_code == 200


@pytest.mark.parametrize("accept", ["application/json", "*/*", ""])
async def test_programs_are_answered_as_before(accept: str) -> None:
    answer = await fetch(accept)
    assert answer.status_code == 401
    assert answer.json()["code"] == "unauthenticated"


async def test_an_address_that_cannot_be_one_gets_no_page() -> None:
    assert (await fetch(BROWSER, host="<script>")).status_code == 400


@pytest.mark.parametrize(
    ("accept", "page"),
    [
        (BROWSER, True),
        ("TEXT/HTML;q=0.5", True),
        ("text/html;q=0", False),
        ("application/json, text/html;q=0.4", False),
        ("text/html;q=nonsense", False),
        ("*/*", False),
    ],
)
def test_a_page_is_for_who_asks_for_one(accept: str, page: bool) -> None:
    assert wants_page(accept) is page
