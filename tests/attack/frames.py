"""Frames that lie, on the pure coordinator: three nodes, one of them a liar, and the same without it.

`python -m tests.attack.frames --frames 100000` counts what was said, and whether anything got through: an
exception, a broken invariant of the honest, or a job that only they can run and that came to another end.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import CheckpointWish, JobSpec, Priority
from gpunion.domain.jobs.session import Session, SessionKind
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.nodes.trust import NodeAccepted
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB, MIB, Capacity, Gpu, Request
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box
from gpunion.sim.run import run_scenario
from gpunion.sim.scenario.values import (
    JobPlan,
    LiarPlan,
    NodePlan,
    OwnerAct,
    OwnerPlan,
    Program,
    Scenario,
    TroublePlan,
    in_gang,
)
from gpunion.sim.streams import Streams
from gpunion.sim.world import Parts, World

HONEST = (NodeId("alpha"), NodeId("beta"))
LIAR = NodeId("liar")
LIES_UNTIL_S = 150.0
FRAMES_PER_S = 12.0
ACCEPTED_EVERY_S = 10.0
# What the coordinator notes of an exception that it did not die of; here it counts all the same.
SWALLOWED = ("EventSetAside", "PlanningFailed")


@dataclass(frozen=True, slots=True)
class End:
    """Of a job: how the campus says it ended, and what its program last wrote."""

    phase: str
    exit_code: int | None
    last_step: int | None


@dataclass(slots=True)
class Tally:
    frames: Counter[str] = field(default_factory=Counter)
    through: list[str] = field(default_factory=list)
    campuses: int = 0
    isolated: int = 0
    compared: int = 0
    given_to_the_liar: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    took_s: float = 0.0

    @property
    def said(self) -> int:
        return self.frames.total()

    def shown(self) -> dict[str, object]:
        return {
            "campuses": self.campuses,
            "frames": self.said,
            "frames_by_what_became_of_them": dict(self.frames),
            "frames_per_s": round(self.said / self.took_s) if self.took_s else None,
            "jobs_compared": self.compared,
            "runs_given_to_the_liar": self.given_to_the_liar,
            "campuses_that_isolated_it": self.isolated,
            "reasons": dict(self.reasons.most_common()),
            "got_through": len(self.through),
            "what_got_through": self.through[:20],
        }


def campus(seed: int, *, liar: bool) -> Scenario:
    """Four jobs that only the honest can run, three that may go to the liar as well, and three that must: it
    is to have guests of its own."""
    draw = Streams(seed).named("lied-to")
    nodes = [_node(id, "honest", draw.choice((0.5, 1.0))) for id in HONEST]
    jobs = [
        _job(f"safe-{number}", "honest", draw.uniform(0.0, 80.0), draw.choice((40, 90)))
        for number in range(4)
    ]
    jobs += [
        _job(f"any-{number}", "", draw.uniform(0.0, 60.0), draw.choice((30, 200))) for number in range(3)
    ]
    jobs += _of_other_kinds(Streams(seed).named("other kinds"))
    owners: tuple[OwnerPlan, ...] = ()
    if draw.random() < 0.5:
        acts = (
            OwnerAct(at_s=draw.uniform(20.0, 90.0), do="reclaim", notice_s=draw.choice((5.0, 20.0))),
            OwnerAct(at_s=LIES_UNTIL_S, do="resume"),
        )
        owners = (OwnerPlan(node_id=HONEST[1], acts=acts),)
    kinds = {"lie_share": draw.choice((0.0, 0.1, 0.5)), "made_up_per_s": FRAMES_PER_S}
    scenario = Scenario(
        name=f"lied-to-{seed}",
        seed=seed,
        horizon_s=3000.0,
        nodes=tuple(nodes),
        jobs=tuple(jobs),
        owners=owners,
        troubles=TroublePlan(heal_s=LIES_UNTIL_S),
    )
    if not liar:
        return scenario
    lent = [replace(_job(f"lent-{number}", "lent", 0.0, 900), stop_s=LIES_UNTIL_S) for number in range(3)]
    scenario = replace(scenario, jobs=(*jobs, *lent))
    plan = LiarPlan(node_id=LIAR, until_s=LIES_UNTIL_S, from_s=draw.choice((0.0, 10.0)), **kinds)
    return replace(scenario, nodes=(*nodes, _node(LIAR, "lent", 1.7)), liars=(plan,))


def _node(id: NodeId, model: str, speed: float) -> NodePlan:
    gpus = tuple(Gpu(index=index, model=model, memory_bytes=24 * GIB, speed=speed) for index in range(2))
    capacity = Capacity(gpus=gpus, cpus=8.0, memory_bytes=32 * GIB, uplink_bps=1e9)
    facts = NodeFacts(lab=id, capacity=capacity, terms=Terms(), parks=id == LIAR)
    return NodePlan(id=id, facts=facts, downlink_bps=1e9)


def _job(name: str, model: str, submit_s: float, seconds: int) -> JobPlan:
    request = Request(gpus=1, models=(model,) if model else (), cpus=1.0, memory_bytes=GIB)
    spec = JobSpec(
        name=name,
        command=("train",),
        owner="ada",
        lab="",
        request=request,
        checkpoint=CheckpointWish(max_interval_s=10.0),
        expected_s=float(seconds),
    )
    program = Program(steps=seconds, step_s=1.0, capture_s=0.2, state_bytes=16 * MIB, output_bytes=MIB)
    return JobPlan(id=JobId(name), spec=spec, program=program, submit_s=submit_s)


def _of_other_kinds(draw: random.Random) -> list[JobPlan]:
    """That may go to the liar as well: an urgent one, one that runs in windows, a session, a gang. Each
    has rules and frames of its own."""
    changes: dict[str, dict[str, Any]] = {
        "urgent": {"priority": Priority.HIGH},
        "yields": {"priority": Priority.LOW, "preemptible": True},
        "windows": {"atomizable": True},
        "session": {"session": Session(kind=SessionKind.NOTEBOOK)},
        "gang": {},
    }
    found: list[JobPlan] = []
    for name, change in changes.items():
        if draw.random() < 0.5:
            job = _job(f"any-{name}", "", draw.uniform(0.0, 60.0), draw.choice((30, 200)))
            job = replace(job, spec=replace(job.spec, **change))
            found += in_gang(job, 2 if name == "gang" else 1)
    return found


class Ends(Watch):
    """What the programs of all jobs came to, told by themselves."""

    def __init__(self, world: World, tally: Tally) -> None:
        self._world = world
        self._tally = tally
        self.last: dict[JobId, Box] = {}
        self.isolated = False

    def guest_ended(self, box: Box) -> None:
        if box.exit_code == 0:
            self.last[box.job_id] = box

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        if type(commit.event).__name__ in SWALLOWED:
            self._tally.through.append(f"handling it raised: {commit.event}"[:400])
        for reason in commit.decision.reasons:
            if reason.why is Why.NODE_ISOLATED and reason.subject != LIAR:
                self._tally.through.append(f"an honest node is isolated: {reason}"[:400])
        told = [reason.why.value for reason in commit.decision.reasons if reason.subject == LIAR]
        self._tally.reasons.update(told)
        self.isolated = self.isolated or Why.NODE_ISOLATED.value in told

    def of_the_safe(self) -> dict[JobId, End]:
        station = self._world.coordinator.station
        assert station is not None
        found = {}
        for job in station.engine.state.jobs.values():
            if job.id.startswith("safe-"):
                box = self.last.get(job.id)
                found[job.id] = End(job.phase.value, job.exit_code, None if box is None else box.last_step)
        return found


def attack(seed: int, tally: Tally, parts: Parts | None = None) -> None:
    """One campus with the liar and the same without; what differs got through."""
    began_s = time.perf_counter()
    ends: dict[bool, dict[JobId, End]] = {}
    for lying in (True, False):
        seen: list[Ends] = []

        def watched(world: World, seen: list[Ends] = seen) -> None:
            seen.append(Ends(world, tally))
            world.watch(seen[0])
            if LIAR in world.liars:
                _accept_it_again(world, ACCEPTED_EVERY_S)

        try:
            outcome = run_scenario(campus(seed, liar=lying), parts=parts, prepare=watched)
        except Exception as error:
            tally.through.append(f"seed {seed}: it raised {type(error).__name__}: {str(error)[:300]}")
            return
        if lying:
            tally.isolated += seen[0].isolated
            _count(seen[0]._world, tally)
        tally.through += [f"seed {seed}: {str(found)[:400]}" for found in outcome.violations]
        ends[lying] = seen[0].of_the_safe()
    tally.campuses += 1
    for job_id, end in ends[False].items():
        tally.compared += 1
        if ends[True].get(job_id) != end:
            tally.through.append(f"seed {seed}: {job_id} came to {ends[True].get(job_id)}, not to {end}")
    tally.took_s += time.perf_counter() - began_s


def _accept_it_again(world: World, at_s: float) -> None:
    """By the operator, now and then: isolated for good, it would soon have no guests to lie about."""
    if at_s < LIES_UNTIL_S - ACCEPTED_EVERY_S:
        accepted = NodeAccepted(node_id=LIAR, by="operator")
        world.kernel.at(at_s, lambda: _post(world, accepted))
        world.kernel.at(at_s, lambda: _accept_it_again(world, at_s + ACCEPTED_EVERY_S))


def _post(world: World, accepted: NodeAccepted) -> None:
    station = world.coordinator.station
    node = None if station is None else station.engine.state.nodes.get(LIAR)
    if node is not None and node.isolated_because:
        world.coordinator.post(accepted)


def _count(world: World, tally: Tally) -> None:
    tally.frames.update(world.liars[LIAR].counts)
    station = world.coordinator.station
    assert station is not None
    state = station.engine.state
    tally.given_to_the_liar += sum(run.node_id == LIAR for run in state.runs.values())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack.frames", description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    tally, seed = Tally(), options.first
    while tally.said < options.frames and len(tally.through) < 20:
        attack(seed, tally)
        seed += 1
    shown = tally.shown()
    print(json.dumps(shown, indent=2) if options.json else table(shown))
    return 1 if tally.through else 0


def table(shown: dict[str, object]) -> str:
    return "\n".join(f"{name.replace('_', ' '):34} {value}" for name, value in shown.items())


if __name__ == "__main__":
    sys.exit(main())
