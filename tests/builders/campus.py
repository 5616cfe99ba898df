"""Both engines as stations on one manual clock, with frames carried by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.jobs.job import Job, JobSpec
from gpunion.domain.nodes.node import Node, NodeFacts
from gpunion.domain.protocol.commit import Commit, InboxMark, NumberedOrder, SavedCampus
from gpunion.domain.protocol.events import (
    CoordinatorEvent,
    CoordinatorStarted,
    JobStopAsked,
    JobSubmitted,
)
from gpunion.domain.protocol.frames import AgentFrame, CoordinatorFrame, Progress
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.reasons.reason import Reason, Why
from gpunion.domain.timing import Timing
from gpunion.engine.coordinator import audit
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.policy.policies import BASELINE, Policies
from tests.builders.machines import Machine
from tests.builders.processes import Vault
from tests.builders.values import (
    TIMING,
    a_spec,
    facts,
)

# What becomes of one frame: the moments it arrives at. Empty: lost; two: doubled; later ones overtake.
Fate = Callable[[float], list[float]]


def at_once(now_s: float) -> list[float]:
    return [now_s]


class Campus:
    """A coordinator's station and agents' stations, joined by hand. Time only passes in `advance`."""

    def __init__(self, *, policies: Policies = BASELINE, timing: Timing = TIMING) -> None:
        self.now_s = 1000.0
        self.timing = timing
        self.policies = policies
        self.vault = Vault()
        self.machines: dict[NodeId, Machine] = {}
        self.commits: list[Commit] = []
        self.told: list[tuple[float, Reason]] = []
        self.fate: Fate = at_once
        self.up = True
        self.station = self._boot(SavedCampus(), term=1)
        self._wire: list[tuple[float, int, Callable[[], None]]] = []
        self._sent = 0
        self._next_beat_s = self.now_s

    # What people and fate do.

    def adds(self, node: str, of: NodeFacts | None = None) -> Machine:
        machine = self.machines[NodeId(node)] = Machine(self, node, of or facts())
        self._greet(machine)
        self.settle()
        return machine

    def submits(self, job: str = "job", spec: JobSpec | None = None) -> Job:
        self.decide(JobSubmitted(job_id=JobId(job), spec=spec or a_spec()))
        self.settle()
        return self.job(job)

    def stops(self, job: str = "job") -> None:
        self.decide(JobStopAsked(job_id=JobId(job)))
        self.settle()

    def job(self, id: str = "job") -> Job:
        return self.station.engine.state.jobs[JobId(id)]

    def node(self, id: str) -> Node:
        return self.station.engine.state.nodes[NodeId(id)]

    def machine_of(self, job: str = "job") -> Machine:
        """Where the newest run of a job is."""
        run = self.station.engine.state.runs[RunId(f"{job}-e{self.job(job).epoch}")]
        return self.machines[run.node_id]

    def whys(self, subject: str) -> list[Why]:
        return [reason.why for _, reason in self.told if reason.subject == subject]

    def falls(self) -> None:
        """The coordinator dies: its connections break."""
        self.up = False
        self._wire.clear()
        for machine in self.machines.values():
            machine.station.disconnected()

    def rises(self) -> None:
        """Another coordinator takes over from the store alone."""
        self.station = self._boot(self.saved(), term=self.station.term + 1)
        self.up = True
        self.decide(CoordinatorStarted())
        self.settle()

    def hangs_up(self, node: str) -> None:
        machine = self.machines[NodeId(node)]
        machine.station.disconnected()
        self.station.disconnected(machine.node_id)

    def about_to_start(self, machine: Machine, order: StartRun) -> None:
        """No living guest of an older epoch may be left when a newer one starts."""
        for other in self.machines.values():
            for process in other.living():
                if process.order.job_id == order.job_id and not process.stale:
                    assert process.order.epoch > order.epoch, (
                        f"{order.run_id} starts on {machine.node_id} while {process.order.run_id} lives"
                    )

    # How it is driven.

    def decide(self, event: CoordinatorEvent, mark: InboxMark | None = None) -> Commit:
        before = dict(self.station.engine.state.jobs)
        commit = self.station.decide(self.now_s, event, mark)
        self.station.committed(commit)
        self.commits.append(commit)
        violations = audit.check(self.station.engine.state, commit.decision)
        assert violations == [], violations
        for record in commit.decision.changes:
            if isinstance(record, Job) and (former := before.get(record.id)) is not None:
                _only_forward(former, record)
        for reason in commit.decision.reasons:
            assert "{" not in reason.sentence()
            self.told.append((self.now_s, reason))
        return commit

    def settle(self) -> None:
        """Everything that can happen at this moment happens."""
        busy = True
        while busy:
            busy = False
            for machine in self.machines.values():
                busy |= machine.works_off()
            while self.up and (event := self.station.due(self.now_s)) is not None:
                self.decide(event)
                busy = True
            self._send()
            busy |= self._deliver()

    def advance(self, seconds: float) -> Campus:
        end_s = self.now_s + seconds
        rounds_at: Counter[float] = Counter()
        while self.now_s < end_s:
            rounds_at[self.now_s] += 1
            assert rounds_at[self.now_s] < 1000, f"time stands still at {self.now_s}"
            self.now_s = min(end_s, *(max(self.now_s, at_s) for at_s in self._moments()))
            if self.now_s >= self._next_beat_s:
                self._next_beat_s = self.now_s + self.timing.heartbeat_s
                self._beat()
            self.settle()
        return self

    def saved(self) -> SavedCampus:
        """What a store that kept every commit would give back."""
        links = self.station.links
        return SavedCampus(
            records=self.station.engine.state.records(),
            timers=self.station.timers.items(),
            orders=tuple(
                NumberedOrder(node_id=node, seq=seq, order=order)
                for node, link in links.items()
                for seq, order in link.orders.waiting.items()
            ),
            last_order_seq=tuple((node, link.orders.last_seq) for node, link in links.items()),
            marks=tuple(
                InboxMark(node_id=node, incarnation=link.incarnation, seq=link.reports.last_seq)
                for node, link in links.items()
            ),
        )

    def _boot(self, saved: SavedCampus, term: int) -> PureCoordinator:
        return PureCoordinator(
            saved=saved, policies=self.policies, timing=self.timing, term=term, now_s=self.now_s
        )

    def _moments(self) -> Iterator[float]:
        yield self._next_beat_s
        for machine in self.machines.values():
            yield from machine.moments()
        due_s = self.station.next_due_s() if self.up else None
        if due_s is not None:
            yield due_s
        yield from (at_s for at_s, _, _ in self._wire)

    def _beat(self) -> None:
        for machine in self.machines.values():
            if not machine.running:
                continue
            if not machine.station.connected:
                self._greet(machine)
                continue
            progress = [
                Progress(run_id=p.order.run_id, step=p.step(self.now_s), progress=0.0)
                for p in machine.living()
            ]
            self._to_coordinator(machine, machine.station.heartbeat(self.now_s, progress))

    def _greet(self, machine: Machine) -> None:
        self._to_coordinator(machine, machine.station.hello(self.now_s))

    def _send(self) -> None:
        for machine in self.machines.values():
            if machine.running:
                for frame in list(machine.station.outgoing(self.now_s)):
                    self._to_coordinator(machine, frame)
            if self.up:
                for answer in list(self.station.outgoing(self.now_s, machine.node_id)):
                    self._to_agent(machine, answer)

    def _to_coordinator(self, machine: Machine, frame: AgentFrame) -> None:
        def arrive() -> None:
            if self.up:
                for event, mark in self.station.frame_arrived(self.now_s, machine.node_id, frame):
                    self.decide(event, mark)

        self._post(machine, arrive)

    def _to_agent(self, machine: Machine, frame: CoordinatorFrame) -> None:
        station = machine.station

        def arrive() -> None:
            if machine.running and machine.station is station:
                for event, seq in station.frame_arrived(self.now_s, frame):
                    machine.decide(event, seq)

        self._post(machine, arrive)

    def _post(self, machine: Machine, arrive: Callable[[], None]) -> None:
        for at_s in self.fate(self.now_s) if machine.linked else []:
            self._sent += 1
            self._wire.append((at_s, self._sent, arrive))

    def _deliver(self) -> bool:
        due = sorted((w for w in self._wire if w[0] <= self.now_s), key=lambda w: w[:2])
        self._wire = [w for w in self._wire if w[0] > self.now_s]
        for _, _, arrive in due:
            arrive()
        return bool(due)


def a_campus(nodes: Iterable[str] = ("alpha", "beta"), *, policies: Policies = BASELINE, **of: Any) -> Campus:
    """Nodes that have joined; `of` describes them all."""
    campus = Campus(policies=policies)
    for node in nodes:
        campus.adds(node, facts(lab=node, **of))
    return campus


def _only_forward(former: Job, job: Job) -> None:
    assert job.epoch >= former.epoch, f"{job.id} went back from epoch {former.epoch} to {job.epoch}"
    was = -1 if former.durable is None else former.durable.step
    now = -1 if job.durable is None else job.durable.step
    # From a save that its program could not go on from, or from a dump that no machine brings back.
    went_back = job.went_back > former.went_back or job.dumps_given_up > former.dumps_given_up
    assert now >= was or went_back, f"{job.id} had step {was} durable and now only {now}"
    assert not former.phase.over or job.phase is former.phase, f"{job.id} came back from {former.phase}"
