"""The play of figures: what the campus is told of a card under a guest and under its owner, what a job used,
what is remembered. Each figure stands beside what the driver itself says."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from statistics import fmean
from typing import Any

import httpx

from gpunion.agent.owner import client as owner_client
from gpunion.agent.settings import SETTINGS_FILE
from gpunion.cli.demo.campus import LocalCampus
from gpunion.cli.output.used import before_in_words
from gpunion.domain.resources import GIB
from tests.gpu.scene import NODE, OwnWork, Scene

NAME = "measured"
ASKED_VRAM_BYTES = 64 * GIB
SERIES = (
    "gpunion_gpu_utilisation_ratio",
    "gpunion_gpu_memory_bytes",
    "gpunion_gpu_memory_used_bytes",
    "gpunion_gpu_temperature_celsius",
    "gpunion_gpu_power_watts",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The card as its driver tells of it, asked beside the agent."""

    uuid: str
    utilisation: Callable[[], float]
    temperature_c: Callable[[], float]
    power_w: Callable[[], float]


@dataclass
class FiguresScene(Scene):
    card: Card = field(kw_only=True)
    works_s: float = field(kw_only=True)  # once the campus is told of it
    silent_s: float = field(kw_only=True)  # while its owner works; frames come every 10 s

    def _open(self, campus: LocalCampus) -> None:
        super()._open(campus)
        campus.stop_agent(NODE)
        self._port = _free_port()
        settings = self._state_dir / SETTINGS_FILE
        settings.write_text(f"metrics_port = {self._port}\n" + settings.read_text(encoding="utf-8"))
        campus.start_agent(NODE, **self.props.agent_environment)

    def _submit(self, campus: LocalCampus) -> str:
        self._samples = Samples(self.card.utilisation)
        return str(campus.client().submit(self._request())["job"]["id"])

    def _guest_is_seen(self, campus: LocalCampus, job: str) -> None:
        self._until("it works", lambda: "WORKS" in campus.client().logs(job)["text"])
        self._until("the driver's list names the guest", lambda: self._process_of(f"{job}-e1"))

    def _acts(self, campus: LocalCampus, job: str, idle_bytes: int) -> None:
        self._while_a_guest_works(campus)
        self._what_it_used(campus, job, idle_bytes)
        self._while_its_owner_works(campus)
        self._what_is_remembered(campus)
        again = campus.client().submit(self._request())
        self.found["said_the_next_time"] = before_in_words(again["used_before"], again["job"]["resources"])

    # --- the acts --------------------------------------------------------------------------------

    def _while_a_guest_works(self, campus: LocalCampus) -> None:
        used_bytes = self.props.used_bytes()

        def told() -> dict[str, float] | None:
            figures = self._at_the_campus(campus)
            return figures if figures.get("gpunion_gpu_memory_used_bytes", 0) >= 0.98 * used_bytes else None

        self._until("the campus is told", told)
        time.sleep(self.works_s)
        self.found["guest"] = {
            "at_the_campus": self._at_the_campus(campus),
            "at_its_owner": self._at_its_owner(),
            "by_the_driver": self._by_the_driver(),
        }

    def _what_it_used(self, campus: LocalCampus, job: str, idle_bytes: int) -> None:
        taken_bytes = self.props.used_bytes() - idle_bytes
        (self._state_dir / f"guests/{job}-e1/control/enough").touch()
        client = campus.client()
        self._until("the job ends", lambda: client.job(job)["phase"] == "succeeded")
        self._until("what it used is known", lambda: client.job(job)["used"])
        detail = client.job(job)
        [run] = detail["runs"]
        self.found["used"] = {
            **detail["used"],
            "driver_memory_bytes": taken_bytes,
            "driver_utilisation": round(self._samples.mean(run["started_at"], run["ended_at"]), 3),
        }

    def _while_its_owner_works(self, campus: LocalCampus) -> None:
        owner = OwnWork(self.props.owner, self.props.owner_environment)
        try:
            self._until("the owner's memory is on the GPU", lambda: owner.ready_s)
            self._until("the GPU is the owner's", lambda: self._gpu()["withheld"])
            self._until("the campus shows nothing of it", lambda: not self._at_the_campus(campus))
            at_the_campus, at_its_owner = list[Mapping[str, float]](), self._at_its_owner()
            until_s = time.monotonic() + self.silent_s
            while time.monotonic() < until_s:
                at_the_campus.append(self._at_the_campus(campus))
                time.sleep(1.0)
            owner_client.change_terms(self._state_dir, {"figures": "full"})
            told = self._until("the campus is told by its leave", lambda: self._at_the_campus(campus))
        finally:
            owner.end()
        self.found["owner"] = {
            "at_its_owner": at_its_owner,
            "times_the_campus_was_told": sum(bool(figures) for figures in at_the_campus),
            "by_its_leave": told,
        }

    def _what_is_remembered(self, campus: LocalCampus) -> None:
        def remembered() -> dict[str, Any] | None:
            gpus = campus.client().gpu_history(for_s=3600.0, node=NODE)["gpus"]
            return next((gpu for gpu in gpus if gpu["uuid"] == self.card.uuid), None)

        gpu = self._until("minutes of it are kept", remembered)
        points = [point for point in gpu["points"] if point["utilisation"] is not None]
        self.found["remembered"] = {
            "minutes": len(gpu["points"]),
            "seen_s": sum(point["seen_s"] for point in gpu["points"]),
            "utilisation": max((point["utilisation"] for point in points), default=None),
            "memory_share": max(point["memory_share"] for point in gpu["points"]),
        }

    # --- looking ---------------------------------------------------------------------------------

    def _request(self) -> dict[str, Any]:
        return {
            "name": NAME,
            "command": ["python3", "-c", self.props.guest],
            "resources": {"gpus": 1, "memory": 16 * GIB, "vram": ASKED_VRAM_BYTES},
        }

    def _at_the_campus(self, campus: LocalCampus) -> dict[str, float]:
        token = (campus.data_dir / "metrics.token").read_text().strip()
        return self._figures(f"{campus.url}/metrics", {"Authorization": f"Bearer {token}"})

    def _at_its_owner(self) -> dict[str, float]:
        return self._figures(f"http://127.0.0.1:{self._port}/metrics", {})

    def _figures(self, url: str, headers: dict[str, str]) -> dict[str, float]:
        page = httpx.get(url, headers=headers, trust_env=False, timeout=30.0).raise_for_status().text
        ours = (line for line in page.splitlines() if f'uuid="{self.card.uuid}"' in line)
        return {line.partition("{")[0]: float(line.split()[-1]) for line in ours}

    def _by_the_driver(self) -> dict[str, float]:
        return {
            "gpunion_gpu_memory_used_bytes": float(self.props.used_bytes()),
            "gpunion_gpu_temperature_celsius": self.card.temperature_c(),
            "gpunion_gpu_power_watts": self.card.power_w(),
        }


class Samples:
    """How busy the driver says the card is, asked twice a second."""

    def __init__(self, utilisation: Callable[[], float]) -> None:
        self._taken: list[tuple[float, float]] = []
        self._utilisation = utilisation
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        while True:
            self._taken.append((time.time(), self._utilisation()))
            time.sleep(0.5)

    def mean(self, since: str, until: str) -> float:
        since_s, until_s = (datetime.fromisoformat(moment).timestamp() for moment in (since, until))
        return fmean(share for at_s, share in self._taken if since_s <= at_s <= until_s)


def verdicts(found: Mapping[str, Any]) -> dict[str, bool]:
    guest, used, owner, remembered = (found[act] for act in ("guest", "used", "owner", "remembered"))
    campus, driver = guest["at_the_campus"], guest["by_the_driver"]
    return {
        "the_campus_is_told_all_series_while_a_guest_works": set(campus)
        == set(SERIES)
        == set(guest["at_its_owner"]),
        "they_are_what_the_driver_says": _near(campus, driver, "gpunion_gpu_memory_used_bytes", 0.02)
        and _near(campus, driver, "gpunion_gpu_temperature_celsius", 0.25)
        and abs(campus["gpunion_gpu_utilisation_ratio"] - used["driver_utilisation"]) <= 0.2
        and campus["gpunion_gpu_memory_bytes"] == found["gpu"]["memory_bytes"],
        "what_it_used_of_the_memory_is_what_the_driver_lost": abs(
            used["gpu_memory_bytes"] / used["driver_memory_bytes"] - 1.0
        )
        <= 0.05,
        "how_busy_it_was_is_what_the_driver_says": abs(used["gpu_utilisation"] - used["driver_utilisation"])
        <= 0.15,
        "the_next_time_less_memory_is_suggested": "--vram" in found["said_the_next_time"],
        "of_its_owner_the_campus_is_told_nothing": owner["times_the_campus_was_told"] == 0
        and set(owner["at_its_owner"]) == set(SERIES),
        "but_by_its_leave": set(owner["by_its_leave"]) == set(SERIES),
        "minutes_are_remembered": (remembered["utilisation"] or 0.0) > 0.0
        and remembered["memory_share"] > 0.0,
    }


def _near(told: Mapping[str, float], said: Mapping[str, float], name: str, share: float) -> bool:
    return abs(told[name] - said[name]) <= share * said[name]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
