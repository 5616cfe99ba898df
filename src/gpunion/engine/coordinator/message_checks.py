"""What a machine says is believed of its own runs and of nothing else: asked before anybody acts on it.

A message that names another's run, nobody's, or its own with a foreign job or epoch is *refused*. News of a
run that is over, or of an older epoch, is not: it is late, and the handlers say what it still means.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.nodes.node import Node
from gpunion.domain.protocol.frames import Heartbeat
from gpunion.domain.protocol.reports import (
    CheckpointCaptured,
    CheckpointDurable,
    CheckpointFailed,
    GpusKeptFree,
    GuestAskedToGo,
    NodePaused,
    NodeReclaimed,
    NodeResumed,
    NoticeGiven,
    OutputArrived,
    Report,
    RunEnded,
    RunNotParked,
    RunParked,
    RunStarted,
    RunUnparked,
    StateStaged,
)
from gpunion.engine.coordinator.state import CampusState

# A machine that says what it may not say this often is isolated.
REFUSED_MOST = 20
REFUSED_WITHIN_S = 60.0
# Names are an agent's word: enough of one is shown to find it by.
SHOWN_CHARS = 64
# A checkpoint's number within its run, whether ordered or the agent's own.
_NUMBERED = re.compile(r"-[ca][0-9]{1,9}", re.ASCII)
_RUN = re.compile(r"(.+)-e([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    because: str
    # An honest machine may know a run that a coordinator from a backup has forgotten. That is neither
    # counted nor told: there is no end to the names that could have been.
    counts: bool = True


class Refusals:
    """When a node's messages were refused, as far back as counts. In memory only: a liar goes on lying."""

    def __init__(self) -> None:
        self._at_s: deque[float] = deque(maxlen=REFUSED_MOST)

    def too_many(self, now_s: float) -> bool:
        """With the one of this moment."""
        self._at_s.append(now_s)
        return len(self._at_s) == REFUSED_MOST and now_s - self._at_s[0] <= REFUSED_WITHIN_S


class _OfRun(Protocol):
    @property
    def run_id(self) -> RunId: ...


class _OfEpoch(_OfRun, Protocol):
    @property
    def job_id(self) -> JobId: ...
    @property
    def epoch(self) -> int: ...


Note = TypeVar("Note", bound=_OfRun)


def of_report(state: CampusState, node_id: NodeId, report: Report) -> Refusal | None:
    """Why nothing may be done about it; None: its sender may say this."""
    match report:  # the commonest first
        case CheckpointCaptured() | CheckpointDurable() | CheckpointFailed():
            return _of_run(state, node_id, report) or _of_checkpoint(report.run_id, report.checkpoint_id)
        case RunStarted():
            refusal = _of_run(state, node_id, report)
            if refusal is not None:
                return replace(refusal, counts=True)  # it is answered with an order
            return _restored(state, report)
        case RunEnded() | OutputArrived():
            return _of_run(state, node_id, report) or _of_output(report.run_id, report.output)
        case RunParked() | RunNotParked() | RunUnparked() | GuestAskedToGo():
            return _of_run(state, node_id, report)
        case StateStaged():
            return _of_copy(state, report)
        case NoticeGiven():
            return _of_gpus(state, node_id, report.gpus) or _first(
                _of_name(state, node_id, run_id) for run_id in report.parking
            )
        case NodeReclaimed() | NodePaused() | NodeResumed() | GpusKeptFree():
            return _of_gpus(state, node_id, report.gpus)
        case _:
            return None  # the others name nothing but their sender


def of_heartbeat(state: CampusState, node_id: NodeId, beat: Heartbeat) -> tuple[Heartbeat, Refusal | None]:
    """What its sender may say of it, and why not the rest."""
    noted: tuple[_OfRun, ...] = (
        *beat.progress,
        *beat.preparing,
        *beat.saves,
        *beat.finishing,
        *beat.sessions,
    )
    refusal = _first(_of_name(state, node_id, note.run_id) for note in noted)
    if refusal is None:
        return beat, None
    return replace(
        beat,
        progress=_own(state, node_id, beat.progress),
        preparing=_own(state, node_id, beat.preparing),
        saves=_own(state, node_id, beat.saves),
        finishing=_own(state, node_id, beat.finishing),
        sessions=_own(state, node_id, beat.sessions),
    ), refusal


def own_guests(state: CampusState, node_id: NodeId, guests: Iterable[RunId]) -> tuple[RunId, ...]:
    """Of a hello: the others are nobody's lie, since it may come from before a backup was put back."""
    return tuple(run for run in guests if _is_of(state, node_id, run) or _of_held(state, run))


def _of_held(state: CampusState, run_id: RunId) -> bool:
    """A guest of a job that is held may be one that only its machine knows of."""
    if not state.held:
        return False
    found = _RUN.fullmatch(run_id)
    return found is not None and found[1] in state.held


def _own(state: CampusState, node_id: NodeId, notes: tuple[Note, ...]) -> tuple[Note, ...]:
    return tuple(note for note in notes if _is_of(state, node_id, note.run_id))


def _is_of(state: CampusState, node_id: NodeId, run_id: RunId) -> bool:
    run = state.runs.get(run_id)
    return run is not None and run.node_id == node_id


def _of_run(state: CampusState, node_id: NodeId, report: _OfEpoch) -> Refusal | None:
    run = state.runs.get(report.run_id)
    if run is None or run.node_id != node_id:
        return _of_name(state, node_id, report.run_id)
    if run.job_id != report.job_id:
        return Refusal(because=f"{run.id} is not a run of {_shown(report.job_id)}")
    if run.epoch != report.epoch:
        return Refusal(because=f"{run.id} is not of epoch {report.epoch}")
    return None


def _of_name(state: CampusState, node_id: NodeId, run_id: RunId) -> Refusal | None:
    run = state.runs.get(run_id)
    if run is None:
        return Refusal(because=f"there is no run {_shown(run_id)}", counts=not _forgotten(state, run_id))
    if run.node_id != node_id:
        return Refusal(because=f"{run.id} is a run of {run.node_id}")
    return None


def _forgotten(state: CampusState, run_id: RunId) -> bool:
    """Whether it could be a run from after the day to which this coordinator was put back."""
    named = _RUN.fullmatch(run_id)
    if named is None:
        return False
    job = state.jobs.get(JobId(named[1]))
    return job is None or int(named[2]) > job.epoch


def _of_checkpoint(run_id: RunId, checkpoint_id: CheckpointId) -> Refusal | None:
    if checkpoint_id.startswith(run_id) and _NUMBERED.fullmatch(checkpoint_id, len(run_id)):
        return None
    return Refusal(because=f"{_shown(checkpoint_id)} is not a checkpoint of {run_id}")


def _of_output(run_id: RunId, output: CheckpointId | None) -> Refusal | None:
    if output is None or output == f"{run_id}-output":
        return None
    return Refusal(because=f"{_shown(output)} is not the output of {run_id}")


def _restored(state: CampusState, report: RunStarted) -> Refusal | None:
    """The newest sealed wins, so it may be one that nobody here has heard of; but never another job's."""
    restored = report.restored
    if restored is None:
        return None
    known = state.checkpoints.get(restored)
    its_own = restored.startswith(f"{report.job_id}-e") if known is None else known.job_id == report.job_id
    return None if its_own else Refusal(because=f"{_shown(restored)} is not a checkpoint of {report.job_id}")


def _of_copy(state: CampusState, report: StateStaged) -> Refusal | None:
    """Whether it was asked for, and still is, is asked where copies are kept."""
    if not report.checkpoint_id.startswith(f"{report.job_id}-e"):
        because = f"{_shown(report.checkpoint_id)} is not a checkpoint of {_shown(report.job_id)}"
        return Refusal(because=because)
    job = state.jobs.get(report.job_id)
    if job is None:
        return Refusal(because=f"there is no job {_shown(report.job_id)}", counts=False)
    if report.epoch > job.epoch:
        return Refusal(because=f"there is no epoch {report.epoch} of {job.id} yet", counts=False)
    return None


def _of_gpus(state: CampusState, node_id: NodeId, gpus: tuple[int, ...]) -> Refusal | None:
    node = state.nodes.get(node_id)
    if not gpus or node is None:
        return None
    strange = sorted({*gpus} - _gpus_of(state, node))
    return Refusal(because=f"it has no GPU {strange[0]}") if strange else None


def _gpus_of(state: CampusState, node: Node) -> set[int]:
    """Also those that are gone from it, while something of them is still to be ended."""
    held = (state.runs[run_id].grant.gpu_indices for run_id in state.living.get(node.id, ()))
    return {
        *(gpu.index for gpu in node.facts.capacity.gpus),
        *(gpu.index for gpu in node.withheld),
        *(index for indices in held for index in indices),
    }


def _first(found: Iterable[Refusal | None]) -> Refusal | None:
    return next((refusal for refusal in found if refusal is not None), None)


def _shown(name: str) -> str:
    return repr(name[:SHOWN_CHARS])
