"""A random campus from a seed: small, busy, and full of trouble, so that hard cases meet often."""

from __future__ import annotations

import random
from dataclasses import replace

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import CheckpointWish, JobSpec, Priority
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.resources import GIB, MIB, Capacity, Gpu, Request
from gpunion.domain.timing import Timing
from gpunion.sim.scenario.in_windows import with_windows
from gpunion.sim.scenario.values import (
    DUMPS,
    JobPlan,
    LiarPlan,
    NetworkPlan,
    NodePlan,
    OwnerAct,
    OwnerPlan,
    Parks,
    Program,
    RandomOwner,
    Scenario,
    SignHabit,
    TroublePlan,
    in_gang,
)
from gpunion.sim.streams import Streams

LABS = ("alpha", "beta", "gamma")
TROUBLED_S = (300.0, 700.0)
# After the troubles there is time for every job to be recovered and run through, one after another.
HEALED_S = 4000.0
GANG_SHARE = 0.15  # of the jobs
PARKING_SHARE = 0.5  # of the nodes
DUMPING_SHARE = 0.7  # of those
SIGNS_SHARE = 0.5
FORETOLD_SHARE = 0.5
CLOCK_OFFSET_S = 12 * 3600.0
URGENT_SHARE = 0.4  # of the campuses
CROWDED_NODES = 3  # which any gang fits on
SILENT_SHARE = 0.5  # of them: programs that do not save themselves, on machines that park them
PREEMPTIBLE_SHARE = 0.3  # of the others there
URGENT_GPUS_A_USER = 3  # of class high at once: what the widest of the other jobs needs
LIAR_SHARE = 0.25  # of the campuses that can spare a node
LIAR_UP_S = 240 * 3600.0
SPARED_NODES = 4  # with fewer, what is left without a liar could not run every gang


def random_scenario(seed: int, *, liars: bool = True, urgent: bool = True, windows: bool = True) -> Scenario:
    """Without `liars` all are as honest as they are buggy, without `urgent` nobody hands in urgent jobs
    beside the others, and none of those campuses is crowded; without `windows` no job runs in them; nothing
    else of the campus is another."""
    streams = Streams(seed)
    scenario = _scenario(seed, streams)
    if urgent:
        scenario = _with_urgent_jobs(streams.named("fuzz/urgent"), streams.named("fuzz/drivers"), scenario)
    if windows:
        scenario = with_windows(streams.named("fuzz/windows"), scenario)
    return _with_a_liar(streams.named("fuzz/lying"), scenario) if liars else scenario


def _with_urgent_jobs(draw: random.Random, drivers: random.Random, scenario: Scenario) -> Scenario:
    """Some people hand in several at once, which is more than they may have of class high."""
    heal_s = scenario.troubles.heal_s
    if draw.random() >= URGENT_SHARE or heal_s is None:
        return scenario
    jobs = []
    for number in range(draw.randint(1, 8)):
        seconds = draw.uniform(5.0, 60.0)
        spec = JobSpec(
            name=f"urgent-{number}",
            command=("look",),
            owner=f"urgent-{draw.randrange(2)}",
            request=Request(memory_bytes=GIB),
            priority=Priority.HIGH,
            expected_s=draw.choice((None, seconds)),
        )
        program = Program(
            steps=max(1, int(seconds / 0.5)),
            step_s=0.5,
            capture_s=draw.choice((0.1, 1.0)),
            state_bytes=16 * MIB,
            delta_bytes=MIB,
            answers_saves=draw.random() > 0.2,
        )
        submit_s = draw.choice((0.3, draw.uniform(0.0, 0.8))) * heal_s
        stop_s = submit_s + draw.uniform(0.0, 20.0) if draw.random() < 0.2 else None
        jobs.append(
            JobPlan(
                id=JobId(f"urgent-{number}"), spec=spec, program=program, submit_s=submit_s, stop_s=stop_s
            )
        )
    others = (
        replace(job, spec=replace(job.spec, preemptible=draw.random() < PREEMPTIBLE_SHARE))
        for job in scenario.jobs
    )
    return _with_odd_drivers(drivers, replace(scenario, jobs=(*others, *jobs)))


def _with_odd_drivers(draw: random.Random, scenario: Scenario) -> Scenario:
    """Some guests cannot be parked, or their driver never says that it is done; in some campuses, crowded
    ones, nearly everybody can, and few save themselves. Nobody knows how long one has to stand still."""
    habits = (Parks.WELL, Parks.WELL, Parks.WELL, Parks.WELL, Parks.NOT, Parks.NEVER_DONE)
    silent = draw.random() < SILENT_SHARE
    jobs = tuple(
        replace(
            job,
            program=replace(
                job.program,
                parks=draw.choice(habits),
                answers_saves=job.program.answers_saves and not (silent and draw.random() < 0.7),
            ),
        )
        for job in scenario.jobs
    )
    timing = replace(scenario.timing, parked_at_most_s=draw.choice((30.0, 120.0, 900.0)))
    scenario = replace(scenario, jobs=jobs, timing=timing)
    if not silent:
        return scenario
    nodes = tuple(_parks_too(draw, node) for node in scenario.nodes[:CROWDED_NODES])
    owners = tuple(one for one in scenario.owners if one.node_id in {node.id for node in nodes})
    return replace(scenario, nodes=nodes, owners=owners)


def _parks_too(draw: random.Random, plan: NodePlan) -> NodePlan:
    system = DUMPS if draw.random() < 0.4 else plan.facts.system
    terms = replace(plan.facts.terms, park=True)
    return replace(plan, facts=replace(plan.facts, parks=True, terms=terms, system=system))


def _with_a_liar(draw: random.Random, scenario: Scenario) -> Scenario:
    """Never the first node, which is the one that can run any job."""
    heal_s = scenario.troubles.heal_s
    if draw.random() >= LIAR_SHARE or len(scenario.nodes) < SPARED_NODES or heal_s is None:
        return scenario
    liar = draw.choice(scenario.nodes[1:])
    # What it says is read as from the wire, where no clock counts from before its machine's start.
    nodes = tuple(
        replace(node, clock_offset_s=node.clock_offset_s + LIAR_UP_S) if node is liar else node
        for node in scenario.nodes
    )
    plan = LiarPlan(
        node_id=liar.id,
        lie_share=draw.choice((0.05, 0.3)),
        made_up_per_s=draw.choice((0.2, 1.0)),
        from_s=draw.uniform(0.0, heal_s / 2),
        until_s=heal_s,
    )
    return replace(scenario, nodes=nodes, liars=(plan,))


def _scenario(seed: int, streams: Streams) -> Scenario:
    draw = streams.named("fuzz")
    timing = Timing(
        heartbeat_s=draw.choice((2.0, 2.0, 3.0)),
        save_timeout_s=draw.choice((20.0, 120.0)),
        start_timeout_s=120.0,
    )
    heal_s = draw.uniform(*TROUBLED_S)
    nodes = tuple(
        _with_parking(
            streams.named(f"fuzz/park/{number}"),
            _node(streams.named(f"fuzz/node/{number}"), number, timing),
        )
        for number in range(draw.randint(3, 8))
    )
    jobs = tuple(
        member
        for number in range(draw.randint(3, 12))
        for member in _job(streams.named(f"fuzz/job/{number}"), number, heal_s)
    )
    return Scenario(
        name=f"fuzz-{seed}",
        seed=seed,
        horizon_s=heal_s + HEALED_S,
        nodes=nodes,
        jobs=jobs,
        owners=tuple(_owner_of(node, streams, heal_s) for node in nodes),
        troubles=_troubles(streams.named("fuzz/troubles"), heal_s),
        network=NetworkPlan(
            building_bps=draw.choice((1e9, 10e9)),
            background_mean=draw.choice((0.0, 0.2, 0.5)),
            background_every_s=60.0,
        ),
        timing=timing,
        coordinator_rate=1.0 + timing.drift / 2 * draw.uniform(-1, 1),
    )


def _node(draw: random.Random, number: int, timing: Timing) -> NodePlan:
    gpus = draw.choice((1, 1, 2, 4)) if number else 2  # the first node can run any job there is
    speed = draw.choice((0.5, 1.0, 1.0, 1.7))
    uplink_bps = draw.choice((100e6, 1e9, 1e9))
    model = "large" if number == 0 else draw.choice(("small", "large"))
    picky = number > 0 and draw.random() < 0.15
    facts = NodeFacts(
        lab=LABS[number % len(LABS)],
        building=f"building-{number % 2}",
        capacity=Capacity(
            gpus=tuple(
                Gpu(index=index, model=model, memory_bytes=24 * GIB, speed=speed) for index in range(gpus)
            ),
            cpus=8.0,
            memory_bytes=32 * GIB,
            uplink_bps=uplink_bps,
        ),
        terms=Terms(
            deny_labs=(draw.choice(LABS),) if picky else (),
            max_guests=draw.choice((1, 16, 16)),
            memory_bytes=draw.choice((None, 16 * GIB)),
            autonomy_s=draw.choice((0.0, 0.0, 20.0)),
        ),
    )
    return NodePlan(
        id=NodeId(f"node-{number}"),
        facts=facts,
        downlink_bps=uplink_bps,
        clock_rate=1.0 + timing.drift / 2 * draw.uniform(-1, 1),
        clock_offset_s=draw.uniform(-CLOCK_OFFSET_S, CLOCK_OFFSET_S),
        joins_s=draw.choice((0.0, 0.0, draw.uniform(0.0, 60.0))),
    )


def _owner_of(node: NodePlan, streams: Streams, heal_s: float) -> OwnerPlan:
    owner = _owner(streams.named(f"fuzz/owner/{node.id}"), node.id, heal_s)
    owner = _who_computes(streams.named(f"fuzz/visits/{node.id}"), node, owner, heal_s)
    owner = _foretold(streams.named(f"fuzz/foretold/{node.id}"), owner, heal_s)
    return _seen(streams.named(f"fuzz/signs/{node.id}"), owner)


def _with_parking(draw: random.Random, plan: NodePlan) -> NodePlan:
    """Some park guests; of those some can dump them where they stand."""
    facts = plan.facts
    if draw.random() >= PARKING_SHARE:
        return plan
    system = DUMPS if draw.random() < DUMPING_SHARE else facts.system
    terms = replace(facts.terms, park=True)
    return replace(plan, facts=replace(facts, parks=True, terms=terms, system=system))


def _who_computes(draw: random.Random, plan: NodePlan, owner: OwnerPlan, heal_s: float) -> OwnerPlan:
    """An owner whose guests are parked takes single GPUs as well: their word about all of it finds guests
    that stand still."""
    if not plan.facts.parks:
        return owner
    acts = list(owner.acts)
    for _ in range(draw.randint(1, 4)):
        gpu, at_s = draw.randrange(len(plan.facts.capacity.gpus)), draw.uniform(0.0, heal_s)
        notice_s = draw.choice((5.0, 20.0))
        acts.append(OwnerAct(at_s=at_s, do="reclaim", notice_s=notice_s, gpu=gpu))
        acts.append(OwnerAct(at_s=at_s + draw.uniform(0.0, 1200.0), do="resume", gpu=gpu))
    return replace(owner, acts=tuple(acts))


def _foretold(draw: random.Random, owner: OwnerPlan, heal_s: float) -> OwnerPlan:
    """Some machines say until when they are lent, which need not come true."""
    if draw.random() >= FORETOLD_SHARE:
        return owner
    acts = [
        OwnerAct(at_s=draw.uniform(0.0, heal_s), do="foretell", notice_s=draw.uniform(20.0, 300.0))
        for _ in range(draw.randint(1, 4))
    ]
    # In the end nothing is foretold any more: where the lending is over nobody goes.
    return replace(owner, acts=(*owner.acts, *acts, OwnerAct(at_s=heal_s + 100.0, do="foretell")))


def _seen(draw: random.Random, owner: OwnerPlan) -> OwnerPlan:
    """Some can be seen before they come, and at other times."""
    if draw.random() >= SIGNS_SHARE:
        return owner
    habit = SignHabit(
        before_visits=draw.choice((0.0, 0.8)),
        ahead_s=60.0,
        idle_per_day=draw.choice((0.0, 300.0)),
        idle_s=60.0,
    )
    return replace(owner, signs=habit)


def _job(draw: random.Random, number: int, heal_s: float) -> tuple[JobPlan, ...]:
    seconds = draw.uniform(20.0, 300.0)
    step_s = draw.choice((0.1, 0.5, 2.0))
    steps = max(1, int(seconds / step_s))
    state_bytes = draw.choice((1, 16, 64, 256)) * MIB
    fails = draw.random() < 0.06
    program = Program(
        steps=steps,
        step_s=step_s,
        capture_s=draw.choice((0.1, 0.5, 2.0)),
        state_bytes=state_bytes,
        delta_bytes=int(state_bytes * draw.choice((0.1, 0.5, 1.0))),
        boot_s=draw.choice((0.2, 1.0, 3.0)),
        answers_saves=draw.random() > 0.08,
        heeds_term=draw.random() > 0.1,
        leaves_after_final=draw.random() < 0.6,
        exit_code=3 if fails else 0,
        fails_at_step=draw.randint(0, steps) if fails else None,
        output_bytes=draw.choice((0, 8 * MIB)),
    )
    spec = JobSpec(
        name=f"job-{number}",
        command=("train",),
        owner=f"guest-{number % 4}",
        lab=draw.choice(LABS),
        request=Request(
            gpus=draw.choice((1, 1, 1, 2)),
            models=draw.choice(((), (), ("large",))),
            cpus=1.0,
            memory_bytes=draw.choice((1, 4)) * GIB,
        ),
        priority=draw.choice((Priority.LOW, Priority.NORMAL, Priority.NORMAL, Priority.HIGH)),
        checkpoint=CheckpointWish(max_interval_s=draw.choice((None, 15.0, 40.0))),
        expected_s=draw.choice((None, seconds, seconds * 2)),
    )
    submit_s = draw.uniform(0.0, heal_s * 0.8)
    plan = JobPlan(
        id=JobId(f"job-{number}"),
        spec=spec,
        program=program,
        submit_s=submit_s,
        stop_s=submit_s + draw.uniform(0.0, 200.0) if draw.random() < 0.1 else None,
    )
    return _gang(plan, draw.choice((2, 2, 3))) if draw.random() < GANG_SHARE else (plan,)


def _gang(plan: JobPlan, size: int) -> tuple[JobPlan, ...]:
    """One that any three nodes can run, whatever they have and whoever their owners turn away."""
    request = replace(plan.spec.request, gpus=1, models=())
    program = replace(plan.program, tells_steps=plan.program.steps % 3 > 0)
    return in_gang(replace(plan, program=program, spec=replace(plan.spec, lab="", request=request)), size)


def _owner(draw: random.Random, node_id: NodeId, heal_s: float) -> OwnerPlan:
    random_owner = RandomOwner(
        mean_shared_s=draw.choice((60.0, 150.0, 400.0)),
        mean_away_s=draw.choice((15.0, 60.0)),
        announced_share=draw.choice((0.5, 0.8)),
        notices_s=(0.0, 3.0, 8.0, 20.0, 60.0),
        paused_share=0.15,
        leaving_share=draw.choice((0.0, 0.15)),
    )
    # Whatever the owner did last, in the end the machine is lent again: else some jobs could never end.
    last_words = tuple(OwnerAct(at_s=heal_s + 100.0, do=do) for do in ("rejoin", "resume"))
    return OwnerPlan(node_id=node_id, random=random_owner, acts=last_words)


def _troubles(draw: random.Random, heal_s: float) -> TroublePlan:
    def some(most: float) -> float:
        """A third of the seeds is spared each kind: too much trouble hides what little would show."""
        return 0.0 if draw.random() < 1 / 3 else draw.uniform(0.1, 1.0) * most

    return TroublePlan(
        heal_s=heal_s,
        loss=some(0.15),
        duplication=some(0.1),
        delay=some(0.08),
        reorder=some(0.2),
        coordinator_crashes_per_h=some(40.0),
        agent_crashes_per_h=some(80.0),
        node_crashes_per_h=some(30.0),
        connection_breaks_per_h=some(60.0),
        partitions_per_h=some(30.0),
        slow_disks_per_h=some(30.0),
        full_disks_per_h=some(30.0),
        clock_jumps=draw.random() < 0.5,
        wiped_share=draw.choice((0.0, 0.6)),
        spoiled_share=some(0.3),
    )
