"""A decision that is made even where the usual way to it raises, so that one fault stops nobody else.

What raises while an event is handled is that event's fault: it is set aside, and changes nothing. What
raises while places are found for jobs is not: the event counts, and the node or job without which places are
found is looked for. Deciding leaves no trace until it is applied, so both are as if nothing had happened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.nodes.trust import PlanningFailed
from gpunion.domain.protocol.commit import Commit, InboxMark
from gpunion.domain.protocol.events import (
    CoordinatorEvent,
    EventSetAside,
)
from gpunion.engine.coordinator.engine import CoordinatorEngine
from gpunion.engine.coordinator.handlers.asides import sender_of
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator

# Each try plans for the whole campus, while everybody waits.
SUSPECTS_MOST = 200
_WORDS_CHARS = 200


@dataclass(frozen=True, slots=True)
class Careful:
    commit: Commit
    failure: Exception | None = None

    @property
    def set_aside(self) -> bool:
        return isinstance(self.commit.event, EventSetAside)


def decide(
    station: PureCoordinator, now_s: float, event: CoordinatorEvent, mark: InboxMark | None = None
) -> Careful:
    try:
        return Careful(station.decide(now_s, event, mark))
    except Exception as failure:
        return _without_places(station, now_s, event, mark, failure)


def set_aside(
    station: PureCoordinator,
    now_s: float,
    event: CoordinatorEvent,
    mark: InboxMark | None,
    failure: Exception,
) -> Careful:
    """Also for who finds out later than here, when the decision is to be written down."""
    aside = EventSetAside(event=event, because=in_words(failure))
    try:
        commit = station.decide(now_s, aside, mark)
    except Exception:
        commit = station.decide(now_s, replace(aside, plainly=True), mark, plan=False)
    return Careful(commit, failure)


def in_words(failure: Exception) -> str:
    return f"{type(failure).__name__}: {failure}"[:_WORDS_CHARS]


def planning_failed(
    station: PureCoordinator, now_s: float, event: CoordinatorEvent, failure: Exception
) -> PlanningFailed:
    """What is to be posted once the event itself is committed: only then it shows what is at fault."""
    node_id, job_id = _at_fault(station, now_s, sender_of(event))
    return PlanningFailed(because=in_words(failure), node_id=node_id, job_id=job_id)


def _without_places(
    station: PureCoordinator,
    now_s: float,
    event: CoordinatorEvent,
    mark: InboxMark | None,
    failure: Exception,
) -> Careful:
    try:
        commit = station.decide(now_s, event, mark, plan=False)
    except Exception as again:
        return set_aside(station, now_s, event, mark, again)
    return Careful(commit, failure)


def _at_fault(
    station: PureCoordinator, now_s: float, spoke: NodeId | None
) -> tuple[NodeId | None, JobId | None]:
    """The first without which places are found; none where it is nobody's alone, or passed by itself.

    Where two nodes do not go together, either would do: whoever spoke last is asked first, so that nobody is
    set apart by what another says. A node is only accused where others stay: without the last one no place is
    tried at all, and a job that cannot be placed anywhere would have them all isolated, one after another."""
    engine = station.engine
    if engine.plans_with(now_s):
        return None, None
    learned_of = _by_what_was_learned(engine, now_s)
    if learned_of is not None:
        return None, learned_of
    nodes = [node for node in engine.state.nodes.values() if _may_take_guests(node)]
    if len(nodes) > 1:
        for node in sorted(nodes, key=lambda node: (node.id != spoke, node.id))[:SUSPECTS_MOST]:
            if engine.plans_with(now_s, replace(node, isolated_because="suspected")):
                return node.id, None
    for job_id in sorted(engine.state.waiting)[:SUSPECTS_MOST]:
        job = engine.state.jobs[job_id]
        if len(nodes) > 1 and engine.plans_with(now_s, replace(job, phase=JobPhase.FAILED)):
            return None, job_id
    return None, _by_its_window(engine, now_s)


def _by_what_was_learned(engine: CoordinatorEngine, now_s: float) -> JobId | None:
    """The job without whose learned numbers places are found. It is asked before anybody is thought away: a
    clearing has two sides, and without a job that only waits for the tenant at fault nothing is cleared."""
    state = engine.state
    tenants = {state.runs[run_id].job_id for run_id in state.in_windows}
    jobs = (state.jobs[job_id] for job_id in [*sorted(tenants), *sorted(state.waiting - tenants)])
    known = [job for job in jobs if job.profile is not None]
    for job in known[:SUSPECTS_MOST]:
        if engine.plans_with(now_s, replace(job, profile=None)):
            return job.id
    return None


def _by_its_window(engine: CoordinatorEngine, now_s: float) -> JobId | None:
    """The tenant without whose window places are found."""
    for run_id in sorted(engine.state.in_windows)[:SUSPECTS_MOST]:
        run = engine.state.runs[run_id]
        if engine.plans_with(now_s, replace(run, subjob=None)):
            return run.job_id
    return None


def _may_take_guests(node: Node) -> bool:
    return node.phase is NodePhase.SHARING and not node.isolated_because
