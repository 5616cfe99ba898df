"""A container stands parked while its owner computes. They want all of the machine: it goes on elsewhere.

Real agents, coordinator, Podman and CRIU, and a driver that is made up. The program neither saves itself nor
knows of us: whatever it goes on from was taken from where it stood.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpunion.adapters.nvml.child import STAND_IN_VARIABLE
from gpunion.agent.compose.coordinator_requests import join
from gpunion.agent.link.joining import JoinRequest
from gpunion.agent.owner import client as owner_client
from gpunion.agent.terms.file import TERMS_FILE
from gpunion.cli.demo.campus import LocalCampus
from gpunion.domain.nodes.terms import Terms
from tests.system.nursery import fork_module
from tests.system.scene import TIMING
from tests.unit.nvml.cards import STATE_VARIABLE, FakeDriver, a_card

HOSTS = ("a", "b")
LIMIT_S = 120.0
LOOK_S = 0.05
FAKE_NVML = Path(__file__).resolve().parents[1] / "unit" / "nvml"
COUNTING = """
import time
book = open("/gpunion/output/book", "w")
count = 0
while True:
    count += 1
    book.write(f"{count} {time.time():.4f}\\n")
    book.flush()
    time.sleep(0.01)
"""


@pytest.fixture
def campus(tmp_path: Path) -> Iterator[LocalCampus]:
    FakeDriver(tmp_path / "nvml.json").says(gpus=[a_card(0)])
    environment = {
        STATE_VARIABLE: str(tmp_path / "nvml.json"),
        STAND_IN_VARIABLE: "fake_nvml",
        "PYTHONPATH": os.pathsep.join([str(FAKE_NVML), os.environ.get("PYTHONPATH", "")]),
    }
    campus = LocalCampus(root=tmp_path / "campus", timing={**TIMING, "lease_s": 20.0}, spawn=fork_module)
    try:
        campus.start_coordinator()
        for host in HOSTS:
            token = campus.client().make_join_token()["join_token"]
            request = JoinRequest(
                url=campus.url,
                join_token=token,
                name=host,
                lab=host.upper(),
                state_dir=campus.state_dir(host),
                runtime="podman",
                terms=Terms(),
            )
            join(request)
            (campus.state_dir(host) / TERMS_FILE).write_text("park = true\n", encoding="utf-8")
        campus.start_agent(*HOSTS, **environment)
        yield campus
    finally:
        campus.close()


@pytest.mark.requires("podman", "criu")
def test_a_parked_container_goes_on_elsewhere_from_where_it_stood(campus: LocalCampus) -> None:
    until("both can dump guests", lambda: sum(n["dumps_guests"] for n in campus.client().nodes()) == 2)
    job = {
        "name": "counting",
        "command": ["/usr/bin/python3", "-c", COUNTING],
        "resources": {"gpus": 1, "cpus": 0.5, "memory": "64MiB"},
    }
    job_id = str(campus.client().submit(job)["job"]["id"])
    until("it counts", lambda: running_on(campus, job_id) != "" and len(book(campus, job_id)) > 10)
    source = campus.client().job(job_id)["node_id"]
    owner_client.reclaim(campus.state_dir(source), 60.0, gpus=[0])
    until("it is parked", lambda: "memory of" in story(campus, job_id), lambda: story(campus, job_id))
    stood_at = book(campus, job_id)
    owner_client.reclaim(campus.state_dir(source), 60.0)
    elsewhere = next(host for host in HOSTS if host != source)
    until(
        "it runs elsewhere",
        lambda: running_on(campus, job_id) == elsewhere,
        lambda: story(campus, job_id),
    )
    until("it goes on", lambda: len(book(campus, job_id)) > len(stood_at) + 3)
    written = book(campus, job_id)
    assert written[: len(stood_at)] == stood_at  # with the same times: nothing was done again
    assert [count for count, _ in written] == list(range(1, len(written) + 1))
    told = story(campus, job_id)
    assert f"in the memory of {source} it was taken as it stood there" in told
    assert "brought back whole on" in told
    (taken,) = campus.client().checkpoints(job_id)
    assert (taken["tier"], taken["phase"]) == ("system", "durable")


def book(campus: LocalCampus, job_id: str) -> list[tuple[int, float]]:
    job: dict[str, Any] = campus.client().job(job_id)
    guest = campus.state_dir(str(job["node_id"])) / "guests" / f"{job_id}-e{job['epoch']}"
    try:
        rows = (guest / "output" / "book").read_text().split("\n")[:-1]
    except OSError:
        return []
    return [(int(count), float(at)) for count, at in (row.split() for row in rows)]


def running_on(campus: LocalCampus, job_id: str) -> str:
    job = campus.client().job(job_id)
    return str(job["node_id"]) if job["phase"] == "running" else ""


def story(campus: LocalCampus, job_id: str) -> str:
    return "\n".join(line["sentence"] for line in campus.client().why(job_id)["story"])


def until(what: str, true: Callable[[], bool], more: Callable[[], str] = lambda: "") -> None:
    give_up_s = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < give_up_s, f"not within {LIMIT_S:.0f} s: {what}\n{more()}"
        time.sleep(LOOK_S)
