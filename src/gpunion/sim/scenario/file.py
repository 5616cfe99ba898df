"""Reads a scenario from TOML. The only file I/O of the simulator."""

from __future__ import annotations

import tomllib
from pathlib import Path

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import CheckpointWish, JobSpec, Priority
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.resources import GIB, MIB, Capacity, Gpu, Request
from gpunion.domain.system_tier import SystemAbility
from gpunion.domain.timing import Timing
from gpunion.sim.fault_points import KINDS
from gpunion.sim.scenario.owner_file import owner_plans
from gpunion.sim.scenario.toml_tables import ScenarioError, Table, one_of
from gpunion.sim.scenario.values import (
    DUMPS,
    JobPlan,
    NetworkPlan,
    NodePlan,
    Parks,
    Program,
    Scenario,
    ScriptedTrouble,
    TroublePlan,
    in_gang,
)
from gpunion.sim.streams import Streams


def read_scenario(path: Path, seed: int | None = None) -> Scenario:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from None
    return parse_scenario(text, name=path.stem, folder=path.parent, seed=seed)


def parse_scenario(text: str, *, name: str, folder: Path, seed: int | None = None) -> Scenario:
    try:
        top = Table("", tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{name}: not valid TOML: {error}") from None
    written_seed = top.whole("seed", 1)
    streams = Streams(written_seed if seed is None else seed)
    nodes = tuple(node for table in top.tables("node") for node in _nodes(table, streams))
    jobs = tuple(job for table in top.tables("job") for job in _jobs(table, streams))
    node_ids = [node.id for node in nodes]
    scenario = Scenario(
        name=top.text("name", name),
        seed=streams.seed,
        horizon_s=top.number("horizon_s"),
        nodes=nodes,
        jobs=jobs,
        owners=tuple(
            plan for table in top.tables("owner") for plan in owner_plans(table, node_ids, folder, streams)
        ),
        troubles=_troubles(top, node_ids),
        network=top.table("network").fill(NetworkPlan),
        timing=top.table("timing").fill(Timing),
        coordinator_rate=top.number("coordinator_rate", 1.0),
    )
    top.done()
    _check(scenario)
    return scenario


def _nodes(table: Table, streams: Streams) -> list[NodePlan]:
    count, prefix = table.whole("count", 1), table.text("id")
    plans = []
    for number in range(1, count + 1):
        node_id = NodeId(prefix if count == 1 else f"{prefix}{number:02d}")
        one = table.drawing_from(streams.named(f"scenario/node/{node_id}"))
        one.has("id")
        one.has("count")
        uplink_bps = one.number("uplink_mbps", 1000) * 1e6
        gpus = tuple(
            Gpu(
                index=index,
                model=one.text("model", "reference"),
                memory_bytes=int(one.number("vram_gib", 24) * GIB),
                speed=one.number("speed", 1.0),
            )
            for index in range(one.whole("gpus", 1))
        )
        facts = NodeFacts(
            lab=one.text("lab", prefix),
            building=one.text("building", ""),
            capacity=Capacity(
                gpus=gpus,
                cpus=one.number("cpus", 16),
                memory_bytes=int(one.number("memory_gib", 64) * GIB),
                uplink_bps=uplink_bps,
            ),
            terms=one.table("terms").fill(Terms),
            parks=one.flag("parks", False),
            system=DUMPS if one.flag("dumps", False) else SystemAbility(),
        )
        for known in ("model", "vram_gib", "speed"):
            one.has(known)
        plans.append(
            NodePlan(
                id=node_id,
                facts=facts,
                downlink_bps=one.number("downlink_mbps", uplink_bps / 1e6) * 1e6,
                clock_rate=one.number("clock_rate", 1.0),
                clock_offset_s=one.number("clock_offset_s", 0.0),
                joins_s=one.number("joins_s", 0.0),
            )
        )
        one.done()
    return plans


def _jobs(table: Table, streams: Streams) -> list[JobPlan]:
    count, prefix = table.whole("count", 1), table.text("id")
    plans: list[JobPlan] = []
    for number in range(1, count + 1):
        job_id = JobId(prefix if count == 1 else f"{prefix}{number:03d}")
        one = table.drawing_from(streams.named(f"scenario/job/{job_id}"))
        one.has("id")
        one.has("count")
        interval_s = one.optional("max_interval_s")
        priority = one_of(f"{one.where}.priority", one.text("priority", "normal"), PRIORITIES)
        spec = JobSpec(
            name=job_id,
            command=("train",),
            owner=one.text("owner", "guest"),
            lab=one.text("lab", ""),
            request=Request(
                gpus=one.whole("gpus", 1),
                vram_bytes=int(one.number("vram_gib", 0) * GIB),
                models=one.texts("models"),
                cpus=one.number("cpus", 1),
                memory_bytes=int(one.number("memory_gib", 1) * GIB),
            ),
            priority=PRIORITIES[priority],
            checkpoint=CheckpointWish(max_interval_s=interval_s),
            expected_s=one.optional("expected_s"),
        )
        plan = JobPlan(
            id=job_id,
            spec=spec,
            program=_program(one),
            submit_s=one.number("submit_s", 0.0),
            stop_s=one.optional("stop_s"),
        )
        plans += in_gang(plan, one.whole("gang", 1))
        one.done()
    return plans


def _program(one: Table) -> Program:
    state_bytes = int(one.number("state_mib", 64) * MIB)
    fails_at = one.optional("fails_at_step")
    return Program(
        steps=one.whole("steps"),
        step_s=one.number("step_s", 1.0),
        capture_s=one.number("capture_s", 1.0),
        state_bytes=state_bytes,
        delta_bytes=int(one.number("delta_mib", state_bytes / MIB) * MIB),
        boot_s=one.number("boot_s", 1.0),
        answers_saves=one.flag("answers_saves", True),
        heeds_term=one.flag("heeds_term", True),
        leaves_after_final=one.flag("leaves_after_final", True),
        exit_code=one.whole("exit_code", 0),
        fails_at_step=None if fails_at is None else round(fails_at),
        output_bytes=int(one.number("output_mib", 0) * MIB),
        parks=Parks(one_of(f"{one.where}.parks", one.text("parks", Parks.WELL), [*Parks])),
        tells_steps=one.flag("tells_steps", True),
    )


def _troubles(top: Table, node_ids: list[NodeId]) -> TroublePlan:
    scripted = []
    for table in top.tables("trouble"):
        kind = one_of(f"{table.where}.kind", table.text("kind"), KINDS)
        node = (
            NodeId(one_of(f"{table.where}.node", table.text("node"), node_ids)) if table.has("node") else None
        )
        scripted.append(
            ScriptedTrouble(
                at_s=table.number("at_s"), kind=kind, node_id=node, for_s=table.number("for_s", 0.0)
            )
        )
        table.done()
    return top.table("troubles").fill(TroublePlan, scripted=tuple(scripted))


def _check(scenario: Scenario) -> None:
    if not scenario.nodes or not scenario.jobs:
        raise ScenarioError(f"{scenario.name}: a scenario needs at least one [[node]] and one [[job]]")
    for what, ids in (
        ("node", [str(node.id) for node in scenario.nodes]),
        ("job", [str(job.id) for job in scenario.jobs]),
    ):
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ScenarioError(f"{scenario.name}: the {what} id '{twice[0]}' is used twice")


PRIORITIES = {"low": Priority.LOW, "normal": Priority.NORMAL, "high": Priority.HIGH}
