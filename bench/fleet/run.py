"""What does a coordinator cost that many machines talk to?

    python bench/fleet/run.py [--agents 100,300] [--gpus 4] [--seconds 60] [--full] [--json]

A real coordinator, and so many agents over real sockets: heartbeats every 2 s, the figures of all GPUs every
10 s, a guest on each second machine. Measured over the time asked for: processor time and memory of the
coordinator, size and time of a scrape (asked for every 15 s), and lost leases: machines that fell silent.
`--full`: 1,000 agents for ten minutes as well. Exit 0 when no lease was lost with up to 300 agents. The
agents share this machine's cores with the coordinator.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from gpunion.cli.demo.campus import LocalCampus
from gpunion.sdk.client import Client
from gpunion.sdk.errors import ClientError

PER_PROCESS = 100
SCRAPE_EVERY_S = 15.0
CONNECT_LIMIT_S = 300.0
RECONNECT_S = 0.5
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
BAR_AGENTS = 300
AGENTS = Path(__file__).with_name("agents.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    agents: int
    connected: int  # by when the limit for it had passed
    gpus: int
    guests: int
    seconds: float
    connected_after_s: float
    processor_share: float  # of one core, the coordinator's alone
    memory_mib: float
    scrape_bytes: int
    scrape_s: float  # median
    scrape_most_s: float
    leases_lost: int
    loop_lag_p99_s: float
    history_kib: float
    load: float  # of this machine, by its end


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--agents", default="100,300")
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    wanted = [(int(count), asked.seconds) for count in asked.agents.split(",")]
    if asked.full:
        wanted.append((1000, 600.0))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rows = []
    for count, seconds in wanted:
        rows.append(measured(count, asked.gpus, seconds))
        print(json.dumps(asdict(rows[-1])) if asked.json else in_words(rows[-1]), flush=True)
    held = (not row.leases_lost and row.connected == row.agents for row in rows if row.agents <= BAR_AGENTS)
    return 0 if all(held) else 1


def measured(count: int, gpus: int, seconds: float) -> Found:
    with tempfile.TemporaryDirectory(prefix="gpunion-fleet-") as place:
        campus = LocalCampus(root=Path(place))
        campus.start_coordinator()
        fleets: list[subprocess.Popen[bytes]] = []
        try:
            names = [f"node-{number:04d}" for number in range(count)]
            fleets = _start(campus, names, gpus)
            with campus.client() as client:
                began_s = time.monotonic()
                connected = _connected(campus, count)
                connected_s = time.monotonic() - began_s
                for _ in range(count // 2):
                    client.submit(_a_job())
                return _watched(campus, count, connected, gpus, seconds, connected_s)
        finally:
            for fleet in fleets:
                fleet.kill()
                fleet.wait()
            campus.close()


def _start(campus: LocalCampus, names: list[str], gpus: int) -> list[subprocess.Popen[bytes]]:
    credentials = {}
    with campus.client() as client, Client(campus.url, None) as stranger:
        for name in names:
            token = client.make_join_token()["join_token"]
            credentials[name] = stranger.enrol(token, name)["credential"]
    fleets = []
    for first in range(0, len(names), PER_PROCESS):
        some = {name: credentials[name] for name in names[first : first + PER_PROCESS]}
        fleet = subprocess.Popen(
            [sys.executable, str(AGENTS), campus.url, "--gpus", str(gpus)],
            stdin=subprocess.PIPE,
            stdout=(campus.root / "fleet.log").open("ab"),
        )
        assert fleet.stdin is not None
        fleet.stdin.write(json.dumps(some).encode() + b"\n")
        fleet.stdin.flush()
        fleets.append(fleet)
    return fleets


def _a_job() -> dict[str, Any]:
    return {
        "name": "works",
        "command": ["works"],
        "resources": {"gpus": 1, "cpus": 1.0, "memory": "1GiB"},
        "checkpoint": {"max_interval_s": 86_400.0, "min_interval_s": 86_400.0},
    }


def _connected(campus: LocalCampus, count: int) -> int:
    """How many are, once all are or the time for it is over."""
    ends_s = time.monotonic() + CONNECT_LIMIT_S
    while (there := int(_value(_page(campus).text, "gpunion_connected_agents"))) < count:
        if time.monotonic() > ends_s:
            break
        time.sleep(1.0)
    return there


def _watched(
    campus: LocalCampus, count: int, connected: int, gpus: int, seconds: float, connected_s: float
) -> Found:
    pid = campus.coordinator.pid
    time.sleep(5.0)  # jobs are placed, and what came with the connections is over
    silences = Silences(campus)
    began_s, spent_s = time.monotonic(), _cpu_s(pid)
    scrapes, page = list[float](), httpx.Response(200)
    while time.monotonic() - began_s < seconds:
        asked_s = time.monotonic()
        page = _page(campus)
        scrapes.append(time.monotonic() - asked_s)
        time.sleep(max(0.0, min(SCRAPE_EVERY_S, seconds - (time.monotonic() - began_s))))
    passed_s = time.monotonic() - began_s
    silences.end()
    history = campus.data_dir / "usage.db"
    return Found(
        agents=count,
        connected=connected,
        gpus=count * gpus,
        guests=int(_value(page.text, 'gpunion_gpus{state="used"}')),
        seconds=passed_s,
        connected_after_s=connected_s,
        processor_share=(_cpu_s(pid) - spent_s) / passed_s,
        memory_mib=_memory_mib(pid),
        scrape_bytes=len(page.content),
        scrape_s=median(scrapes),
        scrape_most_s=max(scrapes),
        leases_lost=silences.count,
        loop_lag_p99_s=_quantile(page.text, "gpunion_event_loop_lag_seconds", 0.99),
        history_kib=history.stat().st_size / 1024 if history.exists() else 0.0,
        load=os.getloadavg()[0],
    )


class Silences:
    """Counts machines that fall silent, as the coordinator tells them. It takes up again what breaks off: a
    busy coordinator that cannot tell of them has them all the same."""

    def __init__(self, campus: LocalCampus) -> None:
        self.count = 0
        self._over = False
        self._client = campus.client()
        threading.Thread(target=self._listen, daemon=True).start()

    def end(self) -> None:
        self._over = True  # the stream itself ends with the coordinator

    def _listen(self) -> None:
        last: int | None = None
        while not self._over:
            with suppress(ClientError):
                for decision in self._client.events(since=last, reconnect=False):
                    last = decision["seq"]
                    self.count += sum(reason["code"] == "node_went_silent" for reason in decision["reasons"])
            time.sleep(RECONNECT_S)


def _page(campus: LocalCampus) -> httpx.Response:
    token = (campus.data_dir / "metrics.token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.get(f"{campus.url}/metrics", headers=headers, trust_env=False, timeout=120.0)
    return answer.raise_for_status()


def _value(page: str, name: str) -> float:
    lines = (line for line in page.splitlines() if line.startswith(f"{name} "))
    return float(next(lines, "x 0").split()[-1])


def _quantile(page: str, name: str, share: float) -> float:
    """The bound below which that share of what was observed lies."""
    total = _value(page, f"{name}_count")
    for line in page.splitlines():
        if line.startswith(f"{name}_bucket") and float(line.split()[-1]) >= share * total:
            bound = line.split('le="')[1].split('"')[0]
            return float(bound)
    return 0.0


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _memory_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def in_words(found: Found) -> str:
    parts = (
        f"{found.agents} agents with {found.gpus} GPUs and {found.guests} guests, {found.seconds:.0f} s",
        f"{found.processor_share:.0%} of a core",
        f"{found.memory_mib:.0f} MiB",
        f"a scrape has {found.scrape_bytes / 1024:.0f} KiB and took {found.scrape_s * 1000:.0f} ms"
        f" (most {found.scrape_most_s * 1000:.0f})",
        f"lag of the loop below {found.loop_lag_p99_s * 1000:g} ms (99 %)",
        f"{found.leases_lost} leases lost",
        f"{found.connected} connected after {found.connected_after_s:.0f} s",
        f"load of the machine {found.load:.0f}",
    )
    return ", ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
