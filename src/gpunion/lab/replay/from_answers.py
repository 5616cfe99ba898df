"""Makes what was recorded of a campus from a coordinator's answers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from gpunion.domain.jobs.job import JobSpec, Priority
from gpunion.domain.nodes.node import NodeFacts, NodePhase
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.resources import Capacity, Gpu, Request
from gpunion.lab.replay.recorded import PastJob, PastLab, PastMachine, Recorded

Json = dict[str, Any]

_HOUR_S = 3600.0


def recorded(past: Json, usage: Json, nodes: list[Json], *, counted_s: float) -> Recorded:
    """`counted_s`: since when departures are counted, at most the whole time."""
    here = [node for node in nodes if node["phase"] != "left"]
    kept = {one["node"]: one["phases"] for one in past.get("machines", ())}
    since = datetime.fromisoformat(past["since"])
    return Recorded(
        length_s=past["length_s"],
        counted_s=counted_s,
        began_hour=past["began_hour"],
        jobs=tuple(_job(one) for one in past["requests"]),
        labs=tuple(_lab(one, here, counted_s) for one in usage["labs"] if one["open_gpu_h"]),
        machines=tuple(_machine(node, kept.get(node["id"]), since) for node in here),
        left_out=past["left_out"],
    )


def _job(one: Json) -> PastJob:
    first_s, ended_s = one["first_ran_s"], one["ended_s"]
    return PastJob(
        spec=JobSpec(
            name="past",
            command=("past",),
            owner=one["user"],
            lab=one["lab"],
            priority=Priority[one["priority"].upper()],
            expected_s=one["expected_s"],
            request=Request(
                gpus=one["gpus"],
                vram_bytes=one["vram_bytes"],
                models=tuple(one["models"]),
                exclude_models=tuple(one["exclude"]),
                cpus=one["cpus"],
                memory_bytes=one["memory_bytes"],
            ),
        ),
        submit_s=max(0.0, one["submit_s"]),
        measured=one["submit_s"] >= 0.0,
        gang=one["gang"],
        waited_s=None if first_s is None else first_s - one["submit_s"],
        work_s=one["work_s"],
        stop_s=None if first_s is not None or ended_s is None else ended_s - max(0.0, one["submit_s"]),
    )


def _lab(one: Json, nodes: list[Json], counted_s: float) -> PastLab:
    gpus = sum(len(node["gpus"]) for node in nodes if node["lab"] == one["lab"])
    there_h = gpus * counted_s / _HOUR_S
    return PastLab(
        name=one["lab"],
        departures_by_hour=tuple(one["departures_by_hour"]),
        open_share=min(1.0, one["open_gpu_h"] / there_h) if there_h else 1.0,
    )


def _machine(node: Json, kept: list[Json] | None, since: datetime) -> PastMachine:
    gpus = tuple(
        Gpu(index=gpu["index"], model=gpu["model"], memory_bytes=gpu["memory_bytes"], speed=gpu["speed"])
        for gpu in node["gpus"]
    )
    capacity = Capacity(
        gpus=gpus, cpus=node["cpus"], memory_bytes=node["memory_bytes"], uplink_bps=node["uplink_bps"]
    )
    terms = Terms(
        notice_s=node["terms"]["notice_s"],
        allow_labs=tuple(node["terms"].get("allow_labs", ())),
        deny_labs=tuple(node["terms"].get("deny_labs", ())),
    )
    return PastMachine(
        name=node["id"],
        facts=NodeFacts(lab=node["lab"], capacity=capacity, terms=terms),
        joined_s=(datetime.fromisoformat(node["joined_at"]) - since).total_seconds(),
        phases=None if kept is None else tuple((one["at_s"], NodePhase(one["phase"])) for one in kept),
    )
