"""What an engine remembers: records by id, with the few indexes that deciding needs.

The engines never change a state while they decide: they write into a draft (see `draft.py`), and the
shell applies the decision's changes after the store has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from gpunion.domain.account import Account, Quota
from gpunion.domain.checkpoint import Checkpoint, CheckpointPhase
from gpunion.domain.decision import AgentRecord, Record
from gpunion.domain.frames import Preparing
from gpunion.domain.guest import Guest, Holding, JobEpoch, Lease
from gpunion.domain.ids import CheckpointId, JobId, MigrationId, NodeId, RunId
from gpunion.domain.image import CampusImage
from gpunion.domain.job import Job
from gpunion.domain.lending import CampusMemory, Lending
from gpunion.domain.migration import Migration, MigrationPhase
from gpunion.domain.node import Node, NodePhase
from gpunion.domain.run import Run
from gpunion.domain.withheld import GpuPhase
from gpunion.engine.counting import only_counts
from gpunion.engine.memories import Memories
from gpunion.engine.room import Room

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
    waiting: set[JobId] = field(default_factory=set)
    living: dict[NodeId, set[RunId]] = field(default_factory=dict)  # runs that hold something of a node
    unsettled: dict[RunId, set[CheckpointId]] = field(default_factory=dict)  # neither durable nor failed
    reclaiming: set[NodeId] = field(default_factory=set)  # wanted back, whole or single GPUs of them
    asked_to_go: dict[NodeId, set[RunId]] = field(default_factory=dict)  # runs the terms let stay no longer
    moving: set[MigrationId] = field(default_factory=set)  # migrations not yet over
    counted_on: dict[NodeId, set[JobId]] = field(default_factory=dict)  # jobs with a copy of theirs there
    progress: dict[RunId, tuple[int, float]] = field(default_factory=dict)  # from heartbeats; not durable
    preparing: dict[RunId, Preparing] = field(default_factory=dict)  # the same, of runs that are to start
    memories: Memories = field(default_factory=Memories)  # of comings and goings, use and quotas
    room: Room = field(default_factory=Room, compare=False, repr=False)

    @classmethod
    def from_records(cls, records: Iterable[Record]) -> CampusState:
        state = cls()
        state.apply(records)
        return state

    def apply(self, changes: Iterable[Record]) -> None:
        for record in changes:
            self.put(record)

    def put(self, record: Record) -> None:
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
            case Lending() | CampusMemory() | Account() | Quota():
                self.memories.put(record)

    def put_count(self, record: Record) -> None:
        """A record that `only_counts`: it waits for and holds what it did."""
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
            *self.memories.records(),
        )

    def take_back(self, record: Record, former: Record | None) -> None:
        """Undoes one put: engines decide on the live state and leave it as they found it."""
        if former is not None:
            self.put(former)
            return
        match record:
            case Job():
                self._count_copies(self.jobs.pop(record.id), None)
                self.waiting.discard(record.id)
                self.room.wishes.waits_no_more(record.id)
            case Run():
                del self.runs[record.id]
                _leave(self.living, record.node_id, record.id)
                _leave(self.asked_to_go, record.node_id, record.id)
                self.room.touch(record.node_id)
            case Node():
                del self.nodes[record.id]
                self.room.slowest_bps = None
                self.reclaiming.discard(record.id)
                self.room.touch(record.id)
            case Checkpoint():
                del self.checkpoints[record.id]
                _leave(self.unsettled, record.run_id, record.id)
            case Migration():
                self._keep_place(self.migrations.pop(record.id), None)
                self.moving.discard(record.id)
            case CampusImage():
                del self.images[record.id]
            case Lending() | CampusMemory() | Account() | Quota():
                self.memories.take_back(record)

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
            case Lending() | CampusMemory() | Account() | Quota():
                return self.memories.find(record)
            case _:
                return None

    def _put_job(self, job: Job) -> None:
        former = self.jobs.get(job.id)
        self.jobs[job.id] = job
        if job.copies or (former is not None and former.copies):
            self._count_copies(former, job)
        if job.phase.waiting:
            self.waiting.add(job.id)
            self.room.wishes.begins_to_wait(job)
        else:
            self.waiting.discard(job.id)
            self.room.wishes.waits_no_more(job.id)

    def _count_copies(self, former: Job | None, job: Job | None) -> None:
        if former is not None:
            for copy in former.copies:
                _leave(self.counted_on, copy.node_id, former.id)
        if job is not None:
            for copy in job.copies:
                self.counted_on.setdefault(copy.node_id, set()).add(job.id)

    def _put_run(self, run: Run) -> None:
        former = self.runs.get(run.id)
        self.runs[run.id] = run
        if only_counts(former, run):
            return  # it holds what it held
        self.room.touch(run.node_id)
        if run.living:
            self.living.setdefault(run.node_id, set()).add(run.id)
        else:
            _leave(self.living, run.node_id, run.id)
        if run.living and run.wanted_by_s is not None:
            self.asked_to_go.setdefault(run.node_id, set()).add(run.id)
        else:
            _leave(self.asked_to_go, run.node_id, run.id)

    def _put_node(self, node: Node) -> None:
        former = self.nodes.get(node.id)
        if former is None or former.facts is not node.facts:
            self.room.slowest_bps = None
        self.nodes[node.id] = node
        self.room.touch(node.id)
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
            _leave(self.room.reserved, former.destination, former.id)
            self.room.touch(former.destination)
        if now is not None and now.destination is not None:
            if now.reserved_gpus and now.phase not in (MigrationPhase.DONE, MigrationPhase.ABANDONED):
                self.room.reserved.setdefault(now.destination, set()).add(now.id)
            self.room.touch(now.destination)


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


@dataclass(slots=True)
class AgentState:
    """One agent's memory. The lease is not in it: after a restart the agent asks for a new one."""

    guests: dict[RunId, Guest] = field(default_factory=dict)
    epochs: dict[JobId, int] = field(default_factory=dict)
    holding: Holding = field(default_factory=Holding)
    lease_until_s: float | None = None
    cut_off: bool = False  # nobody answers when called, whatever the lease says

    @classmethod
    def from_records(cls, records: Iterable[AgentRecord]) -> AgentState:
        state = cls()
        state.apply(records)
        return state

    def apply(self, changes: Iterable[AgentRecord], forgotten: Iterable[RunId] = ()) -> None:
        for record in changes:
            match record:
                case Guest():
                    self.guests[record.run_id] = record
                case Holding():
                    self.holding = record
                case Lease():
                    self.lease_until_s = record.until_s
                case JobEpoch():
                    self.epochs[record.job_id] = record.epoch
        for run_id in forgotten:
            self.guests.pop(run_id, None)

    def records(self) -> tuple[AgentRecord, ...]:
        epochs = (JobEpoch(job_id=job, epoch=epoch) for job, epoch in sorted(self.epochs.items()))
        return (*self.guests.values(), *epochs, self.holding)
