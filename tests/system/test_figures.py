"""A GPU's figures on their whole way: a driver, an agent, a coordinator, and the pages of both."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from tests.integration.coordinator.process import Coordinator
from tests.real_prometheus import free_port
from tests.services import ANSWER_LIMIT_S
from tests.system.driven_card import an_agent, driver_with_one_card, joined, set_terms

TOLD_LIMIT_S = 60.0
SERIES = "gpunion_gpu_utilisation_ratio{"


async def test_the_campus_is_shown_what_the_owner_lets_it_see(tmp_path: Path) -> None:
    coordinator = Coordinator(tmp_path / "campus", {"GPUNION_COORDINATOR_TIMING_HEARTBEAT_S": "0.2"}).start()
    port = free_port()
    environment = driver_with_one_card(tmp_path)
    with coordinator.client() as client:
        token = client.make_join_token()["join_token"]
    state_dir = await joined(tmp_path, coordinator.url, token, settings=f"metrics_port = {port}\n")
    agent = an_agent(state_dir, environment)
    try:
        own = f"http://127.0.0.1:{port}/metrics"
        until(lambda: SERIES in page(own))
        until(lambda: "gpunion_connected_agents 1.0" in page_of(coordinator))
        assert SERIES not in page_of(coordinator)  # no guest is here
        set_terms(state_dir, environment, "figures=full")
        until(lambda: SERIES in page_of(coordinator))
    finally:
        agent.send_signal(signal.SIGTERM)
        agent.wait()
    until(lambda: SERIES not in page_of(coordinator))
    coordinator.stop()


def page_of(coordinator: Coordinator) -> str:
    return page(coordinator.url + "/metrics", (coordinator.data_dir / "metrics.token").read_text().strip())


def page(url: str, token: str = "") -> str:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        answer = httpx.get(url, headers=headers, trust_env=False, timeout=ANSWER_LIMIT_S)
    except httpx.ConnectError:  # it does not listen yet
        return ""
    return answer.raise_for_status().text


def until(holds: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + TOLD_LIMIT_S
    while not holds():
        assert time.monotonic() < ends_s, "that did not come true"
        time.sleep(0.1)
