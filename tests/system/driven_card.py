"""A machine whose one card has a driver, a stand-in for NVIDIA's: what it says lies in a file."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpunion.adapters.http.requests import HttpRegistrar
from gpunion.adapters.nvml.child import STAND_IN_VARIABLE
from gpunion.agent.link.joining import JoinRequest, join
from gpunion.agent.settings import SETTINGS_FILE
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.resources import GIB
from tests.unit.nvml.cards import STATE_VARIABLE, FakeDriver, a_card

FAKE_DRIVER = Path(__file__).resolve().parents[1] / "unit" / "nvml"
NAME, LAB = "driven", "driven"


def driver_with_one_card(folder: Path) -> dict[str, str]:
    return driver_with(folder, a_card(0))


def driver_with(folder: Path, *cards: dict[str, Any]) -> dict[str, str]:
    FakeDriver(folder / "driver.json").says(gpus=[*cards])
    paths = [str(FAKE_DRIVER), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        STATE_VARIABLE: str(folder / "driver.json"),
        STAND_IN_VARIABLE: "fake_nvml",
        "PYTHONPATH": os.pathsep.join(paths),
    }


async def joined(
    folder: Path,
    url: str,
    join_token: str,
    *,
    settings: str = "",
    terms: Terms | None = None,
    vault: str | None = None,
) -> Path:
    """Its state directory. `settings`: further lines of agent.toml."""
    state_dir = folder / NAME
    request = JoinRequest(
        url=url,
        join_token=join_token,
        name=NAME,
        lab=LAB,
        state_dir=state_dir,
        gpus=(),
        vault=vault or str(folder / "vault"),
        cpus=1.0,
        memory_bytes=GIB,
        terms=terms or Terms(allow_unsandboxed=True),
    )
    await join(request, HttpRegistrar(url))
    file = state_dir / SETTINGS_FILE
    file.write_text(settings + file.read_text())
    return state_dir


def set_terms(state_dir: Path, environment: Mapping[str, str], *words: str) -> None:
    command = [sys.executable, "-m", "gpunion", "terms", "set", *words]
    subprocess.run(
        command, env={**environment, "GPUNION_STATE_DIR": str(state_dir)}, check=True, timeout=120.0
    )


def an_agent(state_dir: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "gpunion.agent", "--state-dir", str(state_dir)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@contextmanager
def a_machine_with_a_card(folder: Path, url: str, join_token: str) -> Iterator[None]:
    """It shows its figures, and takes guests of its own lab only."""
    environment = driver_with_one_card(folder)
    terms = Terms(allow_unsandboxed=True, allow_labs=(LAB,))
    state_dir = asyncio.run(joined(folder, url, join_token, terms=terms))
    set_terms(state_dir, environment, "figures=full")
    agent = an_agent(state_dir, environment)
    try:
        yield
    finally:
        agent.send_signal(signal.SIGTERM)
        agent.wait()
