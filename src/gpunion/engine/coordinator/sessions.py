"""Sessions as the coordinator knows them: what is heard of them, and where whoever asks for one finds it."""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.ids import JobId, NodeId, RunId, run_id
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.jobs.session import IDLE_WARNING_S, Session, SessionIdle
from gpunion.domain.protocol.frames import SessionNote
from gpunion.domain.timing import Timing
from gpunion.engine.coordinator.heartbeats import HeardSession
from gpunion.engine.coordinator.state import CampusState

# How long somebody's request waits for a session that is on its way. Most moves take a quarter of it, and a
# browser gives up after five minutes.
HOLD_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """It runs, and may be asked."""

    node_id: NodeId
    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """It is not there and will be: whoever asks waits."""

    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """It will not be there again."""

    how: str


def reach(state: CampusState, job: Job) -> Here | Away | Over:
    if job.phase.over:
        return Over(how=f"it has ended ({job.phase.value})")
    run = state.runs.get(run_id(job.id, job.epoch))
    if job.phase is JobPhase.STOPPING:
        return Over(how="it is being stopped")
    if run is None or not run.living:
        words = "it waits for a machine" if job.durable is None else "it waits for its next machine"
        return Away(where=words)
    return _on_its_machine(run)


def _on_its_machine(run: Run) -> Here | Away | Over:
    if run.over_s is not None:
        return Over(how="its program has ended, and what it made is being kept")
    if run.phase is RunPhase.ORDERED:
        return Away(where=f"it starts on {run.node_id}")
    if run.parking:
        return Away(where=f"it stands still on {run.node_id} while the owner uses the GPU")
    return Here(node_id=run.node_id, run_id=run.id)


def find(state: CampusState, name: str) -> Job | None:
    """By its job's id, or by its name: then the one that lives, else the newest."""
    by_id = state.jobs.get(JobId(name))
    if by_id is not None:
        return None if by_id.spec.session is None else by_id
    named = [job for job in state.jobs.values() if job.spec.session is not None and job.spec.name == name]
    living = [job for job in named if not job.phase.over]
    return max(living or named, key=lambda job: (job.submitted_s, job.id), default=None)


# A program that was asked to end saves what it has first; after so long it is stopped.
END_LIMIT_S = 180.0


def idle_end_s(session: Session | None, timing: Timing) -> float | None:
    """After how long without anybody it ends: as it wishes, but no later than the campus lets it."""
    if session is None:
        return None
    campus_s = timing.session_idle_s or None
    wishes = [wish_s for wish_s in (session.idle_end_s, campus_s) if wish_s is not None]
    return min(wishes, default=None)


def idle_news(state: CampusState, now_s: float, node_id: NodeId, timing: Timing) -> list[SessionIdle]:
    """Of a machine's sessions, those of which there is something to write down."""
    found = []
    for run_of, heard_of in state.sessions.items():
        run = state.runs.get(run_of)
        if run is None or run.node_id != node_id or run.phase is not RunPhase.RUNNING:
            continue
        limit_s = idle_end_s(state.jobs[run.job_id].spec.session, timing)
        idle_s = heard_of.idle_s(now_s)
        warns = limit_s is not None and idle_s >= limit_s - _warning_s(limit_s)
        ends = limit_s is not None and idle_s >= limit_s and run.end_asked_s is None
        overdue = run.end_asked_s is not None and now_s - run.end_asked_s >= END_LIMIT_S
        changed = run.end_asked_s is None and warns != run.idle_told
        if ends or overdue or changed:
            found.append(SessionIdle(node_id=node_id, run_id=run.id, idle_s=idle_s, warns=warns))
    return found


def _warning_s(limit_s: float) -> float:
    return min(IDLE_WARNING_S, limit_s / 4)


def heard(
    state: CampusState, now_s: float, node_id: NodeId, told: tuple[SessionNote, ...]
) -> dict[RunId, HeardSession]:
    """All a machine says of its sessions. What it does not repeat is over."""
    before, runs = state.sessions, state.runs
    if not told and not before:
        return before
    others = {id: words for id, words in before.items() if id in runs and runs[id].node_id != node_id}
    here = [note for note in told if _is_a_session(state, note)]
    return {**others, **{note.run_id: HeardSession(note=note, heard_s=now_s) for note in here}}


def _is_a_session(state: CampusState, note: SessionNote) -> bool:
    run = state.runs.get(note.run_id)
    job = None if run is None or not run.living else state.jobs.get(run.job_id)
    return job is not None and job.spec.session is not None
