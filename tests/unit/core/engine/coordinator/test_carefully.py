"""What raises while it is handled changes nothing, is kept to look at, and stops nobody else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.jobs.job import Job, JobPhase, JobSpec
from gpunion.domain.jobs.profile import Profile
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.nodes.node import Node
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.protocol.aside import CONTENT_CHARS, KEPT_MOST
from gpunion.domain.protocol.commit import Commit, SavedCampus
from gpunion.domain.protocol.effects import CancelTimer, SetTimer
from gpunion.domain.protocol.events import (
    CoordinatorEvent,
    EventSetAside,
    JobStopAsked,
    JobSubmitted,
    NodeFellSilent,
    NodeJoined,
    NodeReported,
    TimerFired,
)
from gpunion.domain.protocol.frames import Hello
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.protocol.reports import NodePaused, RunStarted
from gpunion.domain.protocol.timers import TurnOver, coordinator_timer
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import Gpu
from gpunion.engine.coordinator import audit, carefully
from gpunion.engine.coordinator.carefully import Careful
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.engine import CoordinatorEngine
from gpunion.engine.coordinator.handlers.asides import LATER_S, TRY_AGAIN_S
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.policy.placement.pick import FastThenTight
from gpunion.policy.policies import BASELINE, Policies
from gpunion.policy.windows.clearing import Bid, Exact
from gpunion.policy.windows.policy import WindowPolicy
from gpunion.policy.windows.turns import TurnBounds
from tests.builders import TIMING, a_spec, facts

Faulty = Callable[[CoordinatorEvent], bool]


class FaultyEngine(CoordinatorEngine):
    """Has begun to change something when it raises."""

    faulty: Faulty = staticmethod(lambda event: False)
    enemies: frozenset[str] = frozenset()  # without one of them places are found

    def plans_with(self, now_s: float, record: Node | Job | Run | None = None) -> bool:
        if self.enemies:
            return record is not None and record.id in self.enemies
        return super().plans_with(now_s, record)

    def _decide(self, draft: Draft, event: CoordinatorEvent, plan: bool = True) -> None:
        super()._decide(draft, event, plan)
        if self.faulty(event):
            raise KeyError("no such thing")


class FaultyScoring(FastThenTight):
    def __init__(self) -> None:
        self.node, self.job = "", ""

    def score(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...], now_s: float) -> float:
        if view.node.id == self.node or job.id == self.job:
            raise ZeroDivisionError("float division by zero")
        return super().score(job, view, gpus, now_s)


class Coordinator:
    """Does what a shell does, with a store that keeps records and timers."""

    def __init__(
        self, saved: SavedCampus | None = None, now_s: float = 100.0, policies: Policies = BASELINE
    ) -> None:
        self.now_s = now_s
        self.scoring = FaultyScoring()
        policies = replace(policies, scoring=self.scoring)
        self.station = PureCoordinator(
            saved=saved or SavedCampus(), policies=policies, timing=TIMING, term=1, now_s=now_s
        )
        known: dict[str, Any] = {"policies": policies, "timing": TIMING, "timers": self.station.timers}
        self.engine = FaultyEngine(state=self.station.engine.state, **known)
        self.station.engine = self.engine

    def fails_over(self, faulty: Faulty) -> None:
        self.engine.faulty = faulty

    def happens(self, event: CoordinatorEvent) -> Careful:
        careful = carefully.decide(self.station, self.now_s, event)
        self._commit(careful.commit)
        if careful.failure is not None and not careful.set_aside:
            failed = carefully.planning_failed(self.station, self.now_s, event, careful.failure)
            self._commit(carefully.decide(self.station, self.now_s, failed).commit)
        return careful

    def joins(self, *nodes: str) -> None:
        for node in nodes:
            id, of = NodeId(node), facts(lab=node)
            hello = Hello(node_id=id, incarnation="first", facts=of, guests=(), ack=0, sent_s=self.now_s)
            for event, _ in self.station.frame_arrived(self.now_s, id, hello):
                self.happens(event)

    def runs(self, job: str = "job", spec: JobSpec | None = None) -> None:
        self.happens(JobSubmitted(job_id=JobId(job), spec=spec or a_spec(gpus=1)))
        run = self.engine.state.runs[RunId(f"{job}-e1")]
        of: dict[str, Any] = {"run_id": run.id, "job_id": run.job_id, "epoch": 1}
        report = RunStarted(**of, restored=None, resumed_step=0, restore_s=0.0)
        self.happens(NodeReported(node_id=run.node_id, report=report))

    def job(self, id: str = "job") -> Job:
        return self.engine.state.jobs[JobId(id)]

    def isolated(self) -> list[str]:
        return sorted(node.id for node in self.engine.state.nodes.values() if node.isolated_because)

    def at(self, timer: str) -> float | None:
        return self.station.timers.at(coordinator_timer(timer))

    def restarts(self) -> Coordinator:
        saved = SavedCampus(records=self.engine.state.records(), timers=self.station.timers.items())
        return Coordinator(saved, self.now_s)

    def _commit(self, commit: Commit) -> None:
        self.station.committed(commit)
        violations = audit.check(self.engine.state, commit.decision)
        assert violations == [], violations
        for reason in commit.decision.reasons:
            assert "{" not in reason.sentence()


def of(kind: type) -> Faulty:
    return lambda event: isinstance(event, kind)


def of_timer(name: str) -> Faulty:
    return lambda event: isinstance(event, TimerFired) and str(event.timer).startswith(name)


def test_a_report_that_cannot_be_handled_changes_nothing_and_isolates_its_sender() -> None:
    campus = Coordinator()
    campus.joins("alpha", "beta")
    campus.fails_over(of(NodeReported))
    paused = NodeReported(node_id=NodeId("alpha"), report=NodePaused())
    careful = campus.happens(paused)
    assert careful.set_aside
    assert careful.commit.event == EventSetAside(event=paused, because="KeyError: 'no such thing'")
    assert campus.engine.state.nodes[NodeId("alpha")].phase == "sharing"
    assert campus.isolated() == ["alpha"]
    [kept] = campus.engine.state.aside.values()
    assert (kept.what, kept.subject, kept.because) == ("NodePaused", "alpha", "KeyError: 'no such thing'")
    assert kept.content == "NodeReported(node_id='alpha', report=NodePaused(gpus=()))"
    told = [reason.why for reason in careful.commit.decision.reasons]
    assert told == [Why.SET_ASIDE, Why.NODE_ISOLATED]
    assert campus.restarts().isolated() == ["alpha"]
    again = campus.happens(paused)
    assert again.commit.decision.empty


def test_a_request_that_cannot_be_handled_changes_nothing_and_isolates_nobody() -> None:
    campus = Coordinator()
    campus.joins("alpha")
    campus.runs()
    campus.fails_over(of(JobStopAsked))
    careful = campus.happens(JobStopAsked(job_id=JobId("job")))
    assert careful.set_aside
    assert campus.job().phase is JobPhase.RUNNING
    assert campus.isolated() == []
    [kept] = campus.engine.state.aside.values()
    assert (kept.what, kept.subject) == ("JobStopAsked", "job")


def test_so_many_are_kept_and_so_much_of_each() -> None:
    campus = Coordinator()
    campus.fails_over(of(JobSubmitted))
    for number in range(KEPT_MOST + 3):
        campus.now_s += 1.0
        spec = replace(a_spec(), command=("x" * 2 * CONTENT_CHARS,))
        campus.happens(JobSubmitted(job_id=JobId(f"job-{number}"), spec=spec))
    kept = campus.engine.state.aside.values()
    assert len(kept) == KEPT_MOST
    assert {f"job-{number}" for number in range(3)}.isdisjoint(one.subject for one in kept)
    assert max(len(one.content) for one in kept) == CONTENT_CHARS


def test_a_timer_that_raises_is_tried_again_later_and_works_once_it_can() -> None:
    campus = Coordinator()
    campus.joins("alpha")
    campus.runs()
    campus.fails_over(of_timer("checkpoint"))
    campus.now_s = campus.at("checkpoint:job-e1") or 0.0
    campus.happens(TimerFired(timer=coordinator_timer("checkpoint:job-e1")))
    assert campus.at("checkpoint:job-e1") == campus.now_s + TRY_AGAIN_S[0]
    after = campus.restarts()
    assert after.at("checkpoint:job-e1") == campus.now_s + TRY_AGAIN_S[0]
    after.now_s += TRY_AGAIN_S[0]
    assert after.happens(TimerFired(timer=coordinator_timer("checkpoint:job-e1"))).failure is None
    assert "job-e1-c1" in after.engine.state.checkpoints


def test_a_timer_that_nothing_waits_for_is_tried_every_hour_in_the_end() -> None:
    campus = Coordinator()
    campus.joins("alpha")
    campus.runs()
    campus.fails_over(of_timer("checkpoint"))
    for _ in range(len(TRY_AGAIN_S) + 1):
        campus.now_s = campus.at("checkpoint:job-e1") or 0.0
        campus.happens(TimerFired(timer=coordinator_timer("checkpoint:job-e1")))
    assert campus.at("checkpoint:job-e1") == campus.now_s + LATER_S
    assert campus.job().phase is JobPhase.RUNNING
    [kept] = campus.engine.state.aside.values()
    assert kept.tries == len(TRY_AGAIN_S) + 1


def test_a_job_whose_run_cannot_be_given_up_ends_as_failed_and_is_never_started_twice() -> None:
    campus = Coordinator()
    campus.joins("alpha", "beta")
    campus.runs()
    source = campus.engine.state.runs[RunId("job-e1")].node_id
    campus.happens(NodeFellSilent(node_id=source, last_heard_s=campus.now_s))
    campus.fails_over(of_timer("give_up"))
    commits = []
    while (at_s := campus.at("give_up:job-e1")) is not None:
        campus.now_s = at_s
        commits.append(campus.happens(TimerFired(timer=coordinator_timer("give_up:job-e1"))).commit)
        campus = restarted(campus)
    assert len(commits) == len(TRY_AGAIN_S) + 1
    last = commits[-1].decision
    assert CancelTimer(timer=coordinator_timer("give_up:job-e1")) in last.effects
    orders = [numbered.order for numbered in commits[-1].orders]
    assert orders == [StopRun(run_id=RunId("job-e1"), job_id=JobId("job"), epoch=1)]
    assert campus.job().phase is JobPhase.FAILED
    assert campus.engine.state.runs[RunId("job-e1")].phase is RunPhase.ENDED
    assert len(campus.engine.state.runs) == 1
    [told] = [reason for reason in last.reasons if reason.why is Why.FAILED]
    assert "timer give_up:job-e1: KeyError: 'no such thing'" in told.sentence()
    assert "Next: tell the operator" in told.sentence()


def restarted(campus: Coordinator) -> Coordinator:
    after = campus.restarts()
    after.fails_over(campus.engine.faulty)
    return after


def test_a_silence_that_cannot_be_handled_isolates_the_node_and_its_runs_are_given_up() -> None:
    campus = Coordinator()
    campus.joins("alpha", "beta")
    campus.runs()
    source = campus.engine.state.runs[RunId("job-e1")].node_id
    campus.fails_over(of(NodeFellSilent))
    campus.happens(NodeFellSilent(node_id=source, last_heard_s=campus.now_s))
    assert campus.isolated() == [source]
    assert campus.station.leases.last_heard_s(source) is None
    campus.now_s = campus.at("give_up:job-e1") or 0.0
    campus.happens(TimerFired(timer=coordinator_timer("give_up:job-e1")))
    assert campus.job().epoch == 2


def test_what_raises_even_over_setting_aside_is_set_aside_with_nothing_more_done() -> None:
    campus = Coordinator()
    campus.joins("alpha")
    plainly = {True: 0, False: 0}

    def faulty(event: CoordinatorEvent) -> bool:
        if isinstance(event, EventSetAside):
            plainly[event.plainly] += 1
            return not event.plainly
        return True

    campus.fails_over(faulty)
    careful = campus.happens(NodeReported(node_id=NodeId("alpha"), report=NodePaused()))
    assert plainly == {True: 1, False: 1}
    assert careful.set_aside
    assert campus.isolated() == ["alpha"]


def test_a_node_over_which_planning_raises_is_isolated_and_the_others_are_used() -> None:
    campus = Coordinator()
    campus.joins("alpha", "beta")
    campus.scoring.node = "alpha"
    careful = campus.happens(JobSubmitted(job_id=JobId("job"), spec=a_spec(gpus=1)))
    assert not careful.set_aside
    assert campus.isolated() == ["alpha"]
    assert campus.engine.state.runs[RunId("job-e1")].node_id == "beta"


@pytest.mark.parametrize("newcomer", ["alpha", "gamma"])
def test_of_two_nodes_that_do_not_go_together_the_one_that_spoke_is_isolated(newcomer: str) -> None:
    """Else a node could have another isolated, by saying what only fits badly to what that one says."""
    campus = Coordinator()
    campus.joins("beta", "other")
    for number in range(10):
        campus.happens(JobSubmitted(job_id=JobId(f"job-{number}"), spec=a_spec(gpus=1)))
    assert campus.engine.state.waiting
    campus.engine.enemies, campus.scoring.node = frozenset({"beta", newcomer}), newcomer
    campus.joins(newcomer)
    assert campus.isolated() == [newcomer]


def test_a_job_over_which_planning_raises_fails_with_its_reason_and_others_are_placed() -> None:
    campus = Coordinator()
    campus.joins("alpha", "beta")
    campus.scoring.job = "bad"
    campus.happens(JobSubmitted(job_id=JobId("bad"), spec=a_spec(gpus=1)))
    assert campus.job("bad").phase is JobPhase.FAILED
    assert campus.isolated() == []
    campus.happens(JobSubmitted(job_id=JobId("good"), spec=a_spec(gpus=1)))
    assert campus.job("good").phase is JobPhase.STARTING


class FaultyClearing(Exact):
    """Cannot reckon with what was learned of a job, or with a job at all."""

    def __init__(self, *, learned_of: str = "", job: str = "") -> None:
        self._learned_of, self._job = learned_of, job

    def choose(self, windows: Sequence[int], bids: Sequence[Bid]) -> Sequence[Bid]:
        for bid in bids:
            learned = bid.bidder.job_id == self._learned_of and bid.bidder.profile.pieces > 0
            if learned or bid.bidder.job_id == self._job:
                raise OverflowError("cannot convert float infinity to integer")
        return super().choose(windows, bids)


@pytest.mark.parametrize(
    ("clearing", "waiting"),
    [
        (FaultyClearing(learned_of="tenant"), ("innocent",)),
        (FaultyClearing(learned_of="tenant"), ("innocent", "also")),
        (FaultyClearing(job="tenant"), ("innocent", "also")),
    ],
)
def test_a_tenant_over_which_planning_raises_fails_and_who_waits_gets_its_place(
    clearing: FaultyClearing, waiting: tuple[str, ...]
) -> None:
    policy = WindowPolicy(clearing=clearing, bounds=TurnBounds(least_s=60.0, most_s=60.0))
    coordinator = Coordinator(policies=replace(BASELINE, windows=policy))
    coordinator.joins("alpha")
    spec = replace(a_spec(gpus=1), atomizable=True)
    coordinator.runs("tenant", spec)
    known = replace(coordinator.job("tenant"), profile=Profile(pieces=1))
    coordinator.engine.state.apply((known,))
    for job in waiting:
        coordinator.happens(JobSubmitted(job_id=JobId(job), spec=spec))
    coordinator.now_s += 100.0
    assert coordinator.happens(TimerFired(timer=TurnOver())).failure is not None
    assert coordinator.job("tenant").phase is JobPhase.FAILED
    phases = sorted(coordinator.job(job).phase.value for job in waiting)
    assert phases == [*["pending"] * (len(waiting) - 1), "starting"]


def test_where_nobody_alone_is_at_fault_planning_is_tried_again() -> None:
    campus = Coordinator()
    campus.joins("alpha")
    campus.scoring.node = "alpha"  # no other machine shows whether it is the job
    campus.happens(JobSubmitted(job_id=JobId("job"), spec=a_spec(gpus=1)))
    assert (campus.isolated(), campus.job().phase) == ([], JobPhase.PENDING)
    campus.scoring.node = ""
    campus.now_s = campus.at("replan") or 0.0
    campus.happens(TimerFired(timer=coordinator_timer("replan")))
    assert campus.job().phase is JobPhase.STARTING


def test_deciding_carefully_where_nothing_raises_is_deciding() -> None:
    campus = Coordinator()
    event = NodeJoined(node_id=NodeId("alpha"), incarnation="first", facts=facts())
    careful = carefully.decide(campus.station, campus.now_s, event)
    assert careful == Careful(campus.station.decide(campus.now_s, event))
    assert SetTimer not in [type(effect) for effect in careful.commit.decision.effects]
