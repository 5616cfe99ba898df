"""A campus of short turns: who waits, who has a window, and the next moment at which places are cleared."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.job import JobSpec, Priority, WindowWish
from gpunion.domain.jobs.window import Promise
from gpunion.domain.protocol.events import NodeReported, TimerFired
from gpunion.domain.protocol.reports import DepartureForetold
from gpunion.domain.protocol.timers import ReplanDue, TurnOver
from gpunion.domain.resources import GIB, Request
from gpunion.policy.policies import LIVE
from gpunion.policy.windows.policy import WindowPolicy
from gpunion.policy.windows.turns import TurnBounds
from tests.builders.headquarters import Headquarters
from tests.builders.values import a_spec

LEAST_S = 60.0
SHORT = replace(
    LIVE, learning=None, windows=WindowPolicy(bounds=TurnBounds(least_s=LEAST_S, most_s=2 * LEAST_S))
)
ANY_LENGTH = WindowWish(shortest_s=10.0)


def of(
    owner: str,
    *,
    gpus: int = 1,
    vram_gib: int = 0,
    memory_gib: float = 1.0,
    priority: Priority = Priority.NORMAL,
    in_windows: bool = True,
    wish: WindowWish | None = None,
) -> JobSpec:
    """A job of theirs."""
    request = Request(gpus=gpus, vram_bytes=vram_gib * GIB, memory_bytes=int(memory_gib * GIB))
    spec = replace(a_spec(request=request, priority=priority), owner=owner, lab="", atomizable=in_windows)
    return replace(spec, windows=wish or WindowWish()) if in_windows else spec


class Turns(Headquarters):
    def __init__(self, now_s: float = 100.0):
        super().__init__(policies=SHORT, now_s=now_s)

    def runs(self, job: str, spec: JobSpec) -> None:
        """It is handed in and has its place."""
        self.submits(job, spec)
        self.later(0.5).started(f"{job}-e1")

    def ends_in(self, node: str, in_s: float) -> None:
        """Its owner has foretold that."""
        foretold = DepartureForetold(at_s=self.now_s + in_s, because="calendar")
        self.hears(NodeReported(node_id=NodeId(node), report=foretold))

    def looks(self) -> None:
        """At the next moment at which anybody looks who may begin."""
        timers = [one for one in self.timers.items() if isinstance(one[0], (TurnOver, ReplanDue))]
        timer, at_s = min(timers, key=lambda one: one[1])
        self.now_s = max(self.now_s, at_s)
        self.hears(TimerFired(timer=timer))

    def looks_until(self, at_s: float) -> None:
        while self.now_s < at_s:
            self.looks()

    def promised(self) -> dict[str, Promise]:
        return {job.id: job.promised for job in self.state.jobs.values() if job.promised is not None}

    def running(self) -> set[str]:
        return {run.job_id for run in self.state.runs.values() if run.living}
