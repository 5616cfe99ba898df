"""Where checkers bring what they found: each violation with its time and the last things that happened."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.gang import member_ids
from gpunion.domain.jobs.run import Run
from gpunion.domain.protocol.commit import AgentCommit, Commit
from gpunion.domain.protocol.events import LeaseRenewed
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.engine.transcript import full_line
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box
from gpunion.sim.world import World

STORY_LINES = 25
# One broken thing breaks others: the first few tell enough.
MOST_VIOLATIONS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    invariant: int  # as numbered in architecture.md
    at_s: float
    subject: str
    what: str
    story: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = "".join(f"\n    {line}" for line in self.story)
        return f"invariant {self.invariant} at {self.at_s:.3f} s, {self.subject}: {self.what}{told}"


class Story(Watch):
    """The last things that happened to each job and node. Kept as they are; told only when asked."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lines: dict[str, deque[tuple[float, str, Commit | AgentCommit | str]]] = {}

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        subjects = {getattr(record, "job_id", record.id) for record in commit.decision.changes}
        subjects.update(reason.subject for reason in commit.decision.reasons)
        subjects.update(order.node_id for order in commit.orders)
        self._note(subjects, "coordinator", commit)

    def agent_committed(self, node_id: NodeId, commit: AgentCommit) -> None:
        if not isinstance(commit.event, LeaseRenewed):
            jobs = {job for record in commit.decision.changes if (job := getattr(record, "job_id", None))}
            self._note({node_id, *jobs, *_job_of_event(commit)}, node_id, commit)

    def guest_began(self, box: Box) -> None:
        text = f"{box.run_id} began on {box.node_id} at step {box.resumed_step}"
        self._note({box.node_id, box.job_id}, "world", text)

    def guest_ended(self, box: Box) -> None:
        text = f"{box.run_id} ended on {box.node_id} at step {box.last_step}: {box.cause or box.exit_code}"
        self._note({box.node_id, box.job_id}, "world", text)

    def owner_spoke(self, node_id: NodeId, word: str, deadline_true_s: float | None) -> None:
        until = "" if deadline_true_s is None else f", deadline {deadline_true_s:.3f} s"
        self._note({node_id}, "owner", f"of {node_id} said {word}{until}")

    def machine_changed(self, node_id: NodeId, what: str) -> None:
        self._note({node_id}, "world", f"{node_id} {what}")

    def tell(self, subject: str) -> tuple[str, ...]:
        return tuple(
            f"{at_s:10.3f} {who}: {happened if isinstance(happened, str) else full_line(happened)}"
            for at_s, who, happened in self._lines.get(subject, ())
        )

    def _note(self, subjects: set[str], who: str, happened: Commit | AgentCommit | str) -> None:
        for subject in subjects:
            lines = self._lines.get(subject)
            if lines is None:
                lines = self._lines[subject] = deque(maxlen=STORY_LINES)
            lines.append((self._world.kernel.now_s, who, happened))


def _job_of_event(commit: AgentCommit) -> set[str]:
    run_id = getattr(commit.event, "run_id", None) or getattr(
        getattr(commit.event, "order", 0), "run_id", None
    )
    return set() if run_id is None else {str(run_id).rpartition("-e")[0]}


class Spared(Watch):
    """Who is not judged: nodes that lie, and jobs that were ever given to one. What such a node says of its
    own guests has to be believed, so they may be lost; any other job may not."""

    def __init__(self, world: World) -> None:
        self._liars = frozenset(world.liars)
        self._subjects: set[str] = {*world.liars}

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        for record in commit.decision.changes if self._liars else ():
            if isinstance(record, Run) and record.node_id in self._liars:
                job = station.engine.state.jobs[record.job_id]
                seat = job.spec.seat
                self._subjects.update((job.id,) if seat is None else member_ids(job.id, seat))

    def __contains__(self, subject: str) -> bool:
        return subject in self._subjects


class Court:
    def __init__(self, world: World) -> None:
        self.world = world
        self.violations: list[Violation] = []
        self.story = Story(world)
        self.spared = Spared(world)
        world.watch(self.story)
        world.watch(self.spared)

    @property
    def now_s(self) -> float:
        return self.world.kernel.now_s

    def find(self, invariant: int, subject: str, what: str) -> None:
        if len(self.violations) < MOST_VIOLATIONS and subject not in self.spared:
            self.violations.append(
                Violation(
                    invariant=invariant,
                    at_s=self.now_s,
                    subject=subject,
                    what=what,
                    story=self.story.tell(subject),
                )
            )


class Checker(Watch):
    """Judges while the world runs; `at_the_end` once afterwards."""

    def __init__(self, court: Court) -> None:
        self.court = court
        self.world = court.world

    def at_the_end(self) -> None: ...
