"""Who waits while the coordinator does not answer is told so; a hiccup is nobody's news."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from gpunion.sdk import client as client_module
from gpunion.sdk.client import Client
from gpunion.sdk.errors import ApiProblem, Unreachable

BUSY = {"code": "busy", "title": "busy", "detail": "too much to do", "next_step": "wait"}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "RETRY_PAUSES_S", (0.0, 0.0, 0.0))


def refusing(times: int) -> Callable[[httpx.Request], httpx.Response]:
    left = [times]

    def answer(request: httpx.Request) -> httpx.Response:
        left[0] -= 1
        if left[0] >= 0:
            raise httpx.ConnectError("connection refused")
        return httpx.Response(200, json={"jobs": []})

    return answer


@pytest.mark.parametrize(("refusals", "told"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_one_who_waits_is_told_once_and_not_of_a_hiccup(refusals: int, told: int) -> None:
    heard: list[str] = []
    with Client(
        "http://x", transport=httpx.MockTransport(refusing(refusals)), on_wait=heard.append
    ) as client:
        assert client.jobs() == {"jobs": []}
    expected = "the coordinator at http://x does not answer (connection refused); trying again"
    assert heard == [expected] * told


def test_what_is_not_tried_again_is_not_waited_for() -> None:
    heard: list[str] = []
    with (
        Client("http://x", transport=httpx.MockTransport(refusing(9)), on_wait=heard.append) as client,
        pytest.raises(Unreachable),
    ):
        client.stop("job-1")
    assert heard == []


def test_a_busy_coordinator_is_one_that_does_not_answer() -> None:
    heard: list[str] = []
    busy = httpx.MockTransport(lambda request: httpx.Response(503, json=BUSY))
    with Client("http://x", transport=busy, on_wait=heard.append) as client, pytest.raises(ApiProblem):
        client.jobs()
    assert heard == ["the coordinator at http://x does not answer (it says that it cannot now); trying again"]
