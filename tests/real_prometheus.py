"""A real Prometheus over one coordinator, with the configuration that we give to operators."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.services import ANSWER_LIMIT_S, CHECKOUT

DEPLOY = CHECKOUT / "deploy" / "prometheus"
# A start and a first scrape take two seconds; only a broken one waits for this.
SCRAPED_LIMIT_S = 120.0

Json = dict[str, Any]


def promtool(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=120.0, **more)


@contextmanager
def prometheus(coordinator_url: str, token: str, folder: Path) -> Iterator[str]:
    """It looks every two seconds, raises alerts at once, and has a folder of its own."""
    text = (DEPLOY / "prometheus.yml").read_text().replace("15s", "2s")
    folder.mkdir(exist_ok=True)
    (folder / "prometheus.yml").write_text(text.replace("127.0.0.1:8765", coordinator_url.split("//")[1]))
    (folder / "rules.yml").write_text(re.sub(r"for: \w+", "for: 0s", (DEPLOY / "rules.yml").read_text()))
    (folder / "metrics.token").write_text(token)
    address = f"127.0.0.1:{free_port()}"
    # Debian's keeps its data in one folder of the system unless told otherwise, where it would find others'.
    words = [f"--storage.tsdb.path={folder / 'series'}", f"--web.listen-address={address}"]
    process = subprocess.Popen(
        ["prometheus", "--config.file=prometheus.yml", *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def asked(url: str, query: str) -> list[Json]:
    """What it answers now; nothing while it does not."""
    return _series(f"{url}/api/v1/query", {"query": query})


def asked_over(url: str, query: str, *, from_s: float, to_s: float, step_s: float) -> list[Json]:
    """A graph's points, series by series."""
    words = {"query": query, "start": str(from_s), "end": str(to_s), "step": str(step_s)}
    return _series(f"{url}/api/v1/query_range", words)


def until_asked(url: str, query: str, value: str) -> None:
    """Until that is what the only series of that query says. A scrape may fail on a busy machine."""
    ends_s, found = time.monotonic() + SCRAPED_LIMIT_S, list[Json]()
    while time.monotonic() < ends_s:
        found = asked(url, query)
        if found and found[0]["value"][1] == value:
            return
        time.sleep(0.1)
    pytest.fail(f"{query} is {found} and not {value}, after {SCRAPED_LIMIT_S:.0f} s")


def _series(url: str, words: dict[str, str]) -> list[Json]:
    try:
        answer = httpx.get(url, params=words, trust_env=False, timeout=ANSWER_LIMIT_S)
    except httpx.TransportError:
        return []  # it does not listen yet
    if answer.status_code == 400:
        pytest.fail(f"{words['query']}: {answer.text}")
    found: list[Json] = answer.json()["data"]["result"] if answer.status_code == 200 else []
    return found


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
