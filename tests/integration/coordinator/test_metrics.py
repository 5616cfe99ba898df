"""The figures of a real coordinator: who may read them, what they say, and a real Prometheus that does."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.protocol.frames import GpuReading, GpuReadings, Heartbeat, LeaseGrant
from gpunion.domain.resources import GIB, Capacity, Gpu
from tests.integration.coordinator.process import Coordinator, a_job
from tests.real_prometheus import DEPLOY, prometheus, promtool, until_asked
from tests.services import ANSWER_LIMIT_S


def get(coordinator: Coordinator, token: str, path: str = "/metrics") -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(coordinator.url + path, headers=headers, trust_env=False, timeout=ANSWER_LIMIT_S)


def metrics_token(coordinator: Coordinator) -> str:
    return (coordinator.data_dir / "metrics.token").read_text().strip()


def test_the_page_shows_queue_machines_and_what_was_counted(coordinator: Coordinator) -> None:
    coordinator.start()
    with coordinator.client() as client, coordinator.node():
        client.submit(a_job(user="ada"))
        answer = get(coordinator, metrics_token(coordinator))
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    for line in (
        "gpunion_connected_agents 1.0",
        "gpunion_job_submitted_total 1.0",
        'gpunion_queue_jobs{state="starting"} 1.0',
        'gpunion_gpus{state="used"} 1.0',
        "gpunion_invariant_violations_total 0.0",
    ):
        assert line in lines
    assert "ada" not in answer.text
    assert "job-" not in answer.text


def test_the_metrics_token_reads_the_page_and_nothing_else(shared: Coordinator) -> None:
    token = metrics_token(shared)
    assert (shared.data_dir / "metrics.token").stat().st_mode & 0o777 == 0o600
    assert get(shared, token).status_code == 200
    assert get(shared, shared.token).status_code == 200
    for path in ("/jobs", "/nodes", "/campus", "/quotas", "/places", "/audit", "/vault/room"):
        assert get(shared, token, "/api/v1" + path).status_code == 403
    _, credential = shared.enrol("gamma")
    assert get(shared, credential).status_code == 403


def test_a_removed_metrics_token_is_void_after_a_restart(coordinator: Coordinator) -> None:
    coordinator.start()
    before = metrics_token(coordinator)
    coordinator.end(signal.SIGTERM)
    coordinator.start()
    assert metrics_token(coordinator) == before
    coordinator.end(signal.SIGTERM)
    (coordinator.data_dir / "metrics.token").unlink()
    coordinator.start()
    assert get(coordinator, before).status_code == 401
    assert get(coordinator, metrics_token(coordinator)).status_code == 200


GPU = Gpu(index=0, model="A100", memory_bytes=40 * GIB, declared=False)
READING = GpuReading(index=0, uuid="GPU-1a", utilisation=0.5, power_w=250.0)
LABELS = '{model="A100",node="alpha",uuid="GPU-1a"}'


def shown_with(coordinator: Coordinator, *frames: GpuReadings, gpu: Gpu = GPU) -> list[str]:
    """The page while a machine with that GPU is connected that has said so."""
    capacity = Capacity(gpus=(gpu,), cpus=8.0, memory_bytes=64 * GIB, uplink_bps=1e9)
    with coordinator.node(facts=NodeFacts(lab="lab-a", capacity=capacity)) as node:
        for frame in frames:
            node.send(frame)
        node.send(Heartbeat(sent_s=1.0, ack=0))
        node.receive_a(LeaseGrant)  # so what was sent before it has been taken
        return get(coordinator, metrics_token(coordinator)).text.splitlines()


def test_a_machine_says_how_its_gpus_are_and_no_engine_hears_of_it(coordinator: Coordinator) -> None:
    coordinator.start()
    lines = shown_with(coordinator, GpuReadings(gpus=(READING,)))
    assert f"gpunion_gpu_utilisation_ratio{LABELS} 0.5" in lines
    assert f"gpunion_gpu_power_watts{LABELS} 250.0" in lines
    memory = next(line for line in lines if line.startswith(f"gpunion_gpu_memory_bytes{LABELS} "))
    assert float(memory.split()[-1]) == 40 * GIB
    assert not any(line.startswith("gpunion_gpu_temperature_celsius{") for line in lines)  # not said
    counters = get(coordinator, coordinator.token, "/api/v1/audit").json()["counters"]
    assert counters["frames.Heartbeat"] == 1
    assert "frames.GpuReadings" not in counters  # the writer never sees it


@pytest.mark.parametrize(
    ("frames", "gpu"),
    [
        ((GpuReadings(gpus=(READING,)), GpuReadings(gpus=())), GPU),  # the newest word counts
        ((GpuReadings(gpus=(replace(READING, index=7),)),), GPU),  # it has no such GPU
        ((GpuReadings(gpus=(READING,)),), replace(GPU, declared=True)),  # no driver sees it
    ],
)
def test_what_is_not_so_has_no_series(
    coordinator: Coordinator, frames: tuple[GpuReadings, ...], gpu: Gpu
) -> None:
    coordinator.start()
    assert not any("gpu_utilisation_ratio{" in line for line in shown_with(coordinator, *frames, gpu=gpu))


def test_scrapes_within_a_few_seconds_are_one_page(shared: Coordinator) -> None:
    pages = {get(shared, metrics_token(shared)).text for _ in range(5)}
    assert len(pages) <= 2  # a slow machine may pass into the next one


@pytest.mark.requires("prometheus")
def test_the_page_and_the_rules_are_what_promtool_wants(shared: Coordinator, tmp_path: Path) -> None:
    page = get(shared, metrics_token(shared)).text
    checked = promtool("check", "metrics", input=page)
    assert (checked.returncode, checked.stderr) == (0, "")
    folder = shutil.copytree(DEPLOY, tmp_path / "prometheus")
    (folder / "metrics.token").touch()
    for words in (("check", "rules", "rules.yml"), ("test", "rules", "rules_test.yml")):
        assert promtool(*words, cwd=folder).returncode == 0
    assert promtool("check", "config", "prometheus.yml", cwd=folder).returncode == 0


def test_rules_ask_for_series_that_there_are(shared: Coordinator) -> None:
    page = get(shared, metrics_token(shared)).text
    rules = (DEPLOY / "rules.yml").read_text()
    asked = set(rules.replace("(", " ").replace("{", " ").replace("[", " ").split())
    for name in sorted(word for word in asked if word.startswith("gpunion_")):
        assert f"# TYPE {name.removesuffix('_bucket')} " in page, name


@pytest.mark.requires("prometheus")
def test_a_real_prometheus_scrapes_a_live_coordinator(shared: Coordinator, tmp_path: Path) -> None:
    with prometheus(shared.url, metrics_token(shared), tmp_path) as url:
        until_asked(url, 'up{job="gpunion"}', "1")
        until_asked(url, "gpunion_connected_agents", "0")


@pytest.mark.requires("prometheus")
def test_alerts_are_raised_by_what_they_are_for(coordinator: Coordinator, tmp_path: Path) -> None:
    coordinator.start()
    with prometheus(coordinator.url, metrics_token(coordinator), tmp_path) as url:
        with coordinator.client() as client, coordinator.node():
            client.set_quota("user:ada", 0)
            client.submit(a_job(user="ada"))  # it waits, and nobody has the GPU
            until_asked(url, 'ALERTS{alertname="JobsWaitBesideFreeGpus",alertstate="firing"}', "1")
        coordinator.stop()
        until_asked(url, 'ALERTS{alertname="CoordinatorDown",alertstate="firing"}', "1")
