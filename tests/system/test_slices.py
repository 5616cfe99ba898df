"""Slices of a card on their whole way, with a stand-in for NVIDIA's driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpunion.domain.resources import GIB
from gpunion.owner_kill import kill_all
from gpunion.sdk.client import Client
from gpunion.sdk.errors import ApiProblem
from tests.integration.coordinator.process import Coordinator
from tests.system.driven_card import NAME, an_agent, driver_with, joined
from tests.unit.nvml.cards import FakeDriver, a_card

LIMIT_S = 60.0
SHAPES = (("3g.40gb", 40), ("2g.20gb", 20), ("1g.10gb", 10))
MODEL = "NVIDIA A100-SXM4-80GB"


def the_cards(ecc: int = 0) -> list[dict[str, Any]]:
    slices = [
        a_card(uuid=f"MIG-{n}", model=f"{MODEL} MIG {shape}", memory_bytes=gib * GIB, gpu_instance=n)
        for n, (shape, gib) in enumerate(SHAPES)
    ]
    return [a_card(0, model=MODEL, memory_bytes=80 * GIB, slices=slices, ecc=ecc), a_card(1)]


@pytest.mark.xdist_group("slices")
async def test_slices_are_read_told_shown_given_and_withheld_together(tmp_path: Path) -> None:
    coordinator = Coordinator(tmp_path / "campus", {"GPUNION_COORDINATOR_TIMING_HEARTBEAT_S": "0.2"}).start()
    environment = driver_with(tmp_path, *the_cards())
    with coordinator.client() as client:
        token = client.make_join_token()["join_token"]
        state_dir = await joined(tmp_path, coordinator.url, token, vault="campus")
        agent = an_agent(state_dir, environment)
        try:
            until(lambda: bool(gpus(client)))
            told = [(gpu["card"], gpu["profile"]) for gpu in gpus(client)]
            assert told == [*(("GPU-0", shape) for shape, _ in SHAPES), ("", "")]
            shown = " ".join(printed(coordinator, "nodes").split())
            assert "1 x H200 140 GiB" in shown
            assert "1 x A100-SXM4-80GB in slices (3g.40gb, 2g.20gb, 1g.10gb)" in shown

            small = submitted(client, vram="15GiB")
            until(lambda: held(client) == [1])  # the smallest that does
            assert "it has a slice of a card (2g.20gb)" in story(client, small)
            with pytest.raises(ApiProblem, match="slices of cards, which do not talk to each other"):
                submitted(client, gpus=2, vram="5GiB")
            assert held(client) == [1]

            FakeDriver(tmp_path / "driver.json").says(gpus=the_cards(ecc=4))
            until(lambda: withheld(client) == [0, 1, 2])  # the fault is the card's, and not the other one's
        finally:
            agent.send_signal(signal.SIGTERM)
            agent.wait()
            kill_all(state_dir)
            coordinator.stop()


def submitted(client: Client, **asked: Any) -> str:
    job = {
        "name": "guest",
        "command": ["python", "-c", "import time; time.sleep(300)"],
        "resources": {"gpus": 1, "cpus": 0.1, "memory": "64MiB", **asked},
    }
    return str(client.submit(job)["job"]["id"])


def gpus(client: Client) -> list[dict[str, Any]]:
    return [gpu for node in client.nodes() if node["id"] == NAME for gpu in node["gpus"]]


def held(client: Client) -> list[int]:
    return [gpu["index"] for gpu in gpus(client) if gpu["run_id"] is not None]


def withheld(client: Client) -> list[int]:
    return [gpu["index"] for gpu in gpus(client) if gpu["withheld"]]


def story(client: Client, job_id: str) -> str:
    why = client.why(job_id)
    return "\n".join(one["sentence"] for one in (*why["story"], *why["waits"]))


def printed(coordinator: Coordinator, *words: str) -> str:
    token = (coordinator.data_dir / "admin.token").read_text().strip()
    return subprocess.run(
        [sys.executable, "-m", "gpunion", *words],
        env={**os.environ, "GPUNION_URL": coordinator.url, "GPUNION_TOKEN": token},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LIMIT_S,
    ).stdout


def until(holds: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < ends_s, "that did not come true"
        time.sleep(0.1)
