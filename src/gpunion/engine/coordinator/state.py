"""What the coordinator remembers: records by id, with the few indexes that deciding needs.

The engines never change a state while they decide: they write into a draft (see `draft.py`), and the
shell applies the decision's changes after the store has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar

from gpunion.domain.environment import CampusEnvironment, InstalledEnvironment
from gpunion.domain.ids import CheckpointId, JobId, MigrationId, NodeId, RunId
from gpunion.domain.image import CampusImage
from gpunion.domain.jobs.account import Account, Quota
from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase
from gpunion.domain.jobs.held import HeldJob
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.migration import Migration, MigrationPhase
from gpunion.domain.jobs.profile import Reliability
from gpunion.domain.jobs.run import Run
from gpunion.domain.nodes.lending import CampusMemory, Lending
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.nodes.withheld import GpuPhase
from gpunion.domain.protocol.aside import SetAside
from gpunion.domain.protocol.decision import Record
from gpunion.domain.protocol.frames import Preparing
from gpunion.engine.coordinator.heartbeats import HeardSession
from gpunion.engine.coordinator.learned_history import Memories

_SETTLED = frozenset({CheckpointPhase.DURABLE, CheckpointPhase.FAILED})

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class CampusState:
    """The coordinator's memory."""

    jobs: dict[JobId, Job] = field(default_factory=dict)
    runs: dict[RunId, Run] = field(default_factory=dict)
    nodes: dict[NodeId, Node] = field(default_factory=dict)
    checkpoints: dict[CheckpointId, Checkpoint] = field(default_factory=dict)
    migrations: dict[MigrationId, Migration] = field(default_factory=dict)
    images: dict[str, CampusImage] = field(default_factory=dict)
    environments: dict[str, CampusEnvironment] = field(default_factory=dict)
    aside: dict[str, SetAside] = field(default_factory=dict)
    held: dict[JobId, HeldJob] = field(default_factory=dict)  # none of these is among the jobs
    waiting: set[JobId] = field(default_factory=set)
    living: dict[NodeId, set[RunId]] = field(default_factory=dict)  # runs that hold something of a node
    unsettled: dict[RunId, set[CheckpointId]] = field(default_factory=dict)  # neither durable nor failed
    reclaiming: set[NodeId] = field(default_factory=set)  # wanted back, whole or single GPUs of them
    asked_to_go: dict[NodeId, set[RunId]] = field(default_factory=dict)  # runs the terms let stay no longer
    moving: set[MigrationId] = field(default_factory=set)  # migrations not yet over
    reserved: dict[NodeId, set[MigrationId]] = field(default_factory=dict)  # places kept, by destination
    promised: dict[NodeId, set[JobId]] = field(default_factory=dict)  # places kept for jobs that wait
    in_windows: set[RunId] = field(default_factory=set)  # living runs of jobs that run in windows
    counted_on: dict[NodeId, set[JobId]] = field(default_factory=dict)  # jobs with a copy of theirs there
    progress: dict[RunId, tuple[int, float]] = field(default_factory=dict)  # from heartbeats; not durable
    installed: dict[NodeId, tuple[InstalledEnvironment, ...]] = field(default_factory=dict)  # from heartbeats
    sessions: dict[RunId, HeardSession] = field(default_factory=dict)  # from heartbeats as well
    preparing: dict[RunId, Preparing] = field(default_factory=dict)  # the same, of runs that are to start
    memories: Memories = field(default_factory=Memories)  # of comings and goings, use and quotas
    # What is free of nodes, as long as nothing has changed that counts there (`capacity`).
    views: dict[NodeId, NodeView] = field(default_factory=dict, compare=False, repr=False)
    with_free_gpus: list[NodeId] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_records(cls, records: Iterable[Record]) -> CampusState:
        state = cls()
        state.apply(records)
        return state

    def apply(self, changes: Iterable[Record]) -> None:
        for record in changes:
            self.put(record)

    def put(self, record: Record) -> None:
        self._forget_views(self.find(record), record)
        match record:
            case Checkpoint():
                self._put_checkpoint(record)
            case Job():
                self._put_job(record)
            case Run():
                self._put_run(record)
            case Node():
                self._put_node(record)
            case Migration():
                self._put_migration(record)
            case CampusImage():
                self.images[record.id] = record
            case CampusEnvironment():
                self.environments[record.id] = record
            case SetAside():
                self.aside[record.id] = record
            case HeldJob():
                self.held[record.id] = record
            case Lending() | CampusMemory() | Account() | Quota() | Reliability():
                self.memories.put(record)

    def put_count(self, record: Record) -> None:
        """A record that `only_counts`: it waits for and holds what it did."""
        self._forget_views(None, record)
        if type(record) is Run:
            self.runs[record.id] = record
        elif type(record) is Job:
            former = self.jobs.get(record.id)
            self.jobs[record.id] = record
            if record.copies or (former is not None and former.copies):
                self._count_copies(former, record)
        elif type(record) is Node:
            self._put_node(record)

    def records(self) -> tuple[Record, ...]:
        return (
            *self.jobs.values(),
            *self.runs.values(),
            *self.nodes.values(),
            *self.checkpoints.values(),
            *self.migrations.values(),
            *self.images.values(),
            *self.environments.values(),
            *self.aside.values(),
            *self.held.values(),
            *self.memories.records(),
        )

    def take_back(self, record: Record, former: Record | None) -> None:
        """Undoes one put: engines decide on the live state and leave it as they found it."""
        self._forget_views(former, record)
        if former is not None:
            self.put(former)
            return
        match record:
            case Job():
                former_job = self.jobs.pop(record.id)
                self._count_copies(former_job, None)
                self._keep_promise(former_job, None)
                self.waiting.discard(record.id)
            case Run():
                del self.runs[record.id]
                _leave(self.living, record.node_id, record.id)
                _leave(self.asked_to_go, record.node_id, record.id)
                self.in_windows.discard(record.id)
            case Node():
                del self.nodes[record.id]
                self.reclaiming.discard(record.id)
            case Checkpoint():
                del self.checkpoints[record.id]
                _leave(self.unsettled, record.run_id, record.id)
            case Migration():
                self._keep_place(self.migrations.pop(record.id), None)
                self.moving.discard(record.id)
            case CampusImage():
                del self.images[record.id]
            case CampusEnvironment():
                del self.environments[record.id]
            case SetAside():
                del self.aside[record.id]
            case HeldJob():
                del self.held[record.id]
            case Lending() | CampusMemory() | Account() | Quota() | Reliability():
                self.memories.take_back(record)

    def _forget_views(self, former: Record | None, record: Record) -> None:
        if type(record) is Run:
            self._forget_view(record.node_id)
        elif type(record) is Job:
            for job in (former, record):
                if isinstance(job, Job) and job.promised is not None:
                    self._forget_view(job.promised.node_id)
        elif type(record) is Node:
            self._forget_view(record.id)
        elif type(record) is Migration:
            for migration in (former, record):
                if isinstance(migration, Migration) and migration.destination is not None:
                    self._forget_view(migration.destination)
        elif type(record) is HeldJob:
            self.views.clear()  # what it may hold is free again, or taken, wherever it may have been
            self.with_free_gpus = None

    def _forget_view(self, node_id: NodeId) -> None:
        self.views.pop(node_id, None)
        self.with_free_gpus = None

    def find(self, record: Record) -> Record | None:
        if type(record) is Checkpoint:  # asked for every record that is put: the commonest first
            return self.checkpoints.get(record.id)
        if type(record) is Job:
            return self.jobs.get(record.id)
        if type(record) is Run:
            return self.runs.get(record.id)
        match record:
            case Node():
                return self.nodes.get(record.id)
            case Migration():
                return self.migrations.get(record.id)
            case CampusImage():
                return self.images.get(record.id)
            case CampusEnvironment():
                return self.environments.get(record.id)
            case SetAside():
                return self.aside.get(record.id)
            case HeldJob():
                return self.held.get(record.id)
            case Lending() | CampusMemory() | Account() | Quota() | Reliability():
                return self.memories.find(record)
            case _:
                return None

    def _put_job(self, job: Job) -> None:
        former = self.jobs.get(job.id)
        self.jobs[job.id] = job
        if job.copies or (former is not None and former.copies):
            self._count_copies(former, job)
        if job.promised is not None or (former is not None and former.promised is not None):
            self._keep_promise(former, job)
        if job.phase.waiting:
            self.waiting.add(job.id)
        else:
            self.waiting.discard(job.id)

    def _count_copies(self, former: Job | None, job: Job | None) -> None:
        if former is not None:
            for copy in former.copies:
                _leave(self.counted_on, copy.node_id, former.id)
        if job is not None:
            for copy in job.copies:
                self.counted_on.setdefault(copy.node_id, set()).add(job.id)

    def _keep_promise(self, former: Job | None, job: Job | None) -> None:
        if former is not None and former.promised is not None:
            _leave(self.promised, former.promised.node_id, former.id)
        if job is not None and job.promised is not None and job.phase.waiting:
            self.promised.setdefault(job.promised.node_id, set()).add(job.id)

    def _put_run(self, run: Run) -> None:
        former = self.runs.get(run.id)
        self.runs[run.id] = run
        if only_counts(former, run):
            return  # it holds what it held
        if run.subjob is not None and run.living:
            self.in_windows.add(run.id)
        else:
            self.in_windows.discard(run.id)
        if run.living:
            self.living.setdefault(run.node_id, set()).add(run.id)
        else:
            _leave(self.living, run.node_id, run.id)
        if run.living and run.wanted_by_s is not None:
            self.asked_to_go.setdefault(run.node_id, set()).add(run.id)
        else:
            _leave(self.asked_to_go, run.node_id, run.id)

    def _put_node(self, node: Node) -> None:
        self.nodes[node.id] = node
        if _to_be_emptied(node):
            self.reclaiming.add(node.id)
        else:
            self.reclaiming.discard(node.id)

    def _put_checkpoint(self, checkpoint: Checkpoint) -> None:
        self.checkpoints[checkpoint.id] = checkpoint
        if checkpoint.phase in _SETTLED:
            _leave(self.unsettled, checkpoint.run_id, checkpoint.id)
        else:
            self.unsettled.setdefault(checkpoint.run_id, set()).add(checkpoint.id)

    def _put_migration(self, migration: Migration) -> None:
        self._keep_place(self.migrations.get(migration.id), migration)
        self.migrations[migration.id] = migration
        if migration.phase in (MigrationPhase.DONE, MigrationPhase.ABANDONED):
            self.moving.discard(migration.id)
        else:
            self.moving.add(migration.id)

    def _keep_place(self, former: Migration | None, now: Migration | None) -> None:
        if former is not None and former.destination is not None:
            _leave(self.reserved, former.destination, former.id)
        if now is not None and now.destination is not None:
            if now.reserved_gpus and now.phase not in (MigrationPhase.DONE, MigrationPhase.ABANDONED):
                self.reserved.setdefault(now.destination, set()).add(now.id)


def _to_be_emptied(node: Node) -> bool:
    if node.phase is NodePhase.RECLAIMING:
        return True
    here = node.phase in (NodePhase.SHARING, NodePhase.PAUSED)
    return here and any(gpu.phase is GpuPhase.RECLAIMING for gpu in node.withheld)


def _leave(index: dict[K, set[V]], key: K, member: V) -> None:
    """An index keeps no empty sets: they would be traces of what was only thought, and pile up."""
    members = index.get(key)
    if members is not None:
        members.discard(member)
        if not members:
            del index[key]


def _same_but(kind: type, *counts: str) -> Callable[[Any, Any], bool]:
    """Compares everything but the counts: a field that is added to a record later matters until somebody says
    otherwise. Most fields of a changed copy are the very same object, which tuples see at once."""
    what_matters = attrgetter(*(field.name for field in fields(kind) if field.name not in counts))
    return lambda former, record: what_matters(former) == what_matters(record)


_same_run = _same_but(Run, "checkpoints", "turn_since_s")
_same_job = _same_but(Job, "cost", "durable", "copies", "profile")
_same_node = _same_but(Node, "signs", "signs_since_s", "signs_before")


def only_counts(former: Record | None, record: Record) -> bool:
    if type(record) is Job:
        return type(former) is Job and not record.phase.waiting and _same_job(former, record)
    if type(record) is Run:
        return type(former) is Run and _same_run(former, record)
    if type(record) is Node:
        return type(former) is Node and former.signs != record.signs and _same_node(former, record)
    return False
