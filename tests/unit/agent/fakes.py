"""The agent's world for a test: every part named, none of it real."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpunion.adapters.files.cache import DirectoryCache
from gpunion.agent.run_notes import Notebook
from gpunion.agent.world import Fetched, World
from gpunion.domain.commit import SavedAgent
from gpunion.domain.events import AgentEvent
from gpunion.domain.frames import AgentFrame, CoordinatorFrame
from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.node import NodeFacts
from gpunion.domain.orders import StartRun
from gpunion.domain.peer import PeerPass
from gpunion.domain.place import Place
from gpunion.domain.resources import GIB, Capacity, Gpu, Grant
from gpunion.domain.terms import Terms
from gpunion.domain.timing import Timing
from gpunion.engine.agent_station import AgentStation
from gpunion.ports.agent_disk import DiskFault, Remembered
from gpunion.ports.coordinator_link import LinkFault
from gpunion.ports.runtime import ExitReason, GuestPaths, GuestSpec, GuestStatus, RuntimeFault
from gpunion.ports.vault import (
    CheckpointLabel,
    Garbage,
    JobKey,
    Manifest,
    OldEpoch,
    UnknownCheckpoint,
    Vault,
    VaultFault,
)
from tests.trees import SmallTree


async def until(condition: Callable[[], object]) -> None:
    """Let everything that can happen happen until the condition holds."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


class ManualClock:
    def __init__(self, now_s: float = 1000.0) -> None:
        self.at_s = now_s

    def now_s(self) -> float:
        return self.at_s


class ScriptedDisk:
    """Remembers every write, and fails while `full`."""

    def __init__(self, journal: list[str] | None = None) -> None:
        self.writes: list[SavedAgent] = []
        self.full = False
        self.journal = journal if journal is not None else []

    def load(self, now_s: float) -> Remembered:
        return Remembered(saved=self.writes[-1] if self.writes else SavedAgent(incarnation="first"))

    def write(self, saved: SavedAgent) -> None:
        if self.full:
            raise DiskFault("the disk is full")
        self.journal.append("write")
        self.writes.append(saved)


class MemoryControl:
    def __init__(self) -> None:
        self.files: dict[tuple[Path, str], dict[str, object]] = {}

    def read_json(self, directory: Path, name: str) -> dict[str, object] | None:
        return self.files.get((directory, name))

    def write_json(self, directory: Path, name: str, value: Mapping[str, object]) -> None:
        self.files[directory, name] = dict(value)

    def delete(self, directory: Path, name: str) -> None:
        self.files.pop((directory, name), None)


class FakeRuntime:
    """Guests as entries of a table. `journal` says what was asked for, in order."""

    name = "fake"
    sandboxed = True

    def __init__(self, root: Path, journal: list[str]) -> None:
        self.root = root
        self.journal = journal
        self.table: dict[str, GuestStatus] = {}
        self.ended: dict[str, asyncio.Event] = {}
        self.start_fault: RuntimeFault | None = None
        self.kill_faults = 0
        self.environment: dict[str, str] = {}  # of the guest prepared last

    unenforced: tuple[str, ...] = ()

    def describe(self) -> str:
        return "no guests at all"

    def paths(self, run_id: str) -> GuestPaths:
        root = self.root / run_id
        return GuestPaths(
            root=root,
            checkpoint_dir=root / "checkpoint",
            control_dir=root / "control",
            output_dir=root / "output",
            scratch_dir=root / "scratch",
            log_file=root / "log.txt",
        )

    async def prepare(self, spec: GuestSpec) -> GuestPaths:
        self.journal.append(f"prepare {spec.run_id} resume={spec.resume}")
        self.environment = dict(spec.environment)
        paths = await self.prepare_paths(spec.run_id)
        self.put(spec.run_id, spec.job_id, spec.epoch, alive=False)
        return paths

    async def prepare_paths(self, run_id: str) -> GuestPaths:
        paths = self.paths(run_id)
        for path in (paths.checkpoint_dir, paths.control_dir, paths.output_dir, paths.work_dir):
            path.mkdir(parents=True, exist_ok=True)
        paths.log_file.touch()
        return paths

    def put(self, run_id: str, job_id: str, epoch: int, *, alive: bool) -> None:
        self.table[run_id] = GuestStatus(
            run_id=run_id, job_id=job_id, epoch=epoch, alive=alive, exit_code=None, exit_reason=None
        )
        self.ended.setdefault(run_id, asyncio.Event())

    async def start(self, spec: GuestSpec) -> None:
        self.journal.append(f"start {spec.run_id}")
        if self.start_fault is not None:
            raise self.start_fault
        if self.table[spec.run_id].exit_reason is None:
            self.put(spec.run_id, spec.job_id, spec.epoch, alive=True)

    async def limit(self, run_id: str, lease_until_s: float | None, kill_at_s: float | None) -> None:
        self.journal.append(f"limit {run_id} {lease_until_s} {kill_at_s}")

    async def signal(self, run_id: str, signum: int) -> None:
        self.journal.append(f"signal {run_id} {signum}")

    def end(self, run_id: str, exit_code: int | None, reason: ExitReason) -> None:
        if self.table[run_id].exit_reason is None:
            self.table[run_id] = replace(
                self.table[run_id], alive=False, exit_code=exit_code, exit_reason=reason
            )
        self.ended[run_id].set()

    async def kill(self, run_id: str, reason: ExitReason) -> GuestStatus | None:
        self.journal.append(f"kill {run_id} {reason}")
        if self.kill_faults:
            self.kill_faults -= 1
            raise RuntimeFault("stuck", temporary=True)
        if run_id not in self.table:
            return None
        self.end(run_id, 137, reason)
        return self.table[run_id]

    async def status(self, run_id: str) -> GuestStatus | None:
        return self.table.get(run_id)

    async def guests(self) -> tuple[GuestStatus, ...]:
        return tuple(self.table.values())

    async def wait_exit(self, run_id: str) -> GuestStatus:
        if run_id not in self.table:
            raise RuntimeFault("unknown", temporary=False)
        await self.ended[run_id].wait()
        return self.table[run_id]

    async def remove(self, run_id: str) -> None:
        self.journal.append(f"remove {run_id}")
        self.table.pop(run_id, None)


@dataclass
class MemoryVault:
    """Manifests in a list; `broken` ids raise when they are restored."""

    journal: list[str]
    sealed: list[Manifest] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    trees: dict[str, dict[str, str]] = field(default_factory=dict)
    broken: dict[str, VaultFault] = field(default_factory=dict)
    ship_fault: VaultFault | None = None
    gate: threading.Event | None = None  # uploads wait for it, as on a slow network
    collected: int = 0
    keys: list[JobKey | None] = field(default_factory=list)  # what was read, saved and restored with
    places: list[tuple[str, ...]] = field(default_factory=list)  # where it was saved and restored

    def begin(self, job_id: str, epoch: int) -> None:
        self.journal.append(f"begin {job_id} {epoch}")
        if epoch < self.epochs.get(job_id, 0):
            raise OldEpoch(f"{job_id} is at {self.epochs[job_id]}")
        self.epochs[job_id] = epoch

    def keyed(self, key: JobKey) -> Vault:
        self.keys.append(key)
        return self

    def has(self, hashes: Iterable[str]) -> set[str]:
        return set(hashes)

    def put(
        self, block_hash: str, data: bytes | memoryview, like: str | None = None, *, named: bool = False
    ) -> int:
        return len(data)

    def seal(self, manifest: Manifest) -> None:
        self.sealed.append(manifest)

    def latest(self, job_id: str) -> Manifest | None:
        return self.sealed[-1] if self.sealed else None

    def get(self, job_id: str, checkpoint_id: str) -> Manifest:
        for manifest in self.sealed:
            if manifest.checkpoint_id == checkpoint_id:
                return manifest
        raise UnknownCheckpoint(checkpoint_id)

    def manifests(self, job_id: str) -> tuple[Manifest, ...]:
        return tuple(manifest for manifest in self.sealed if manifest.job_id == job_id)

    def read_block(self, block_hash: str) -> bytes:
        return b""

    def lend_block(self, block_hash: str) -> bytes:
        return b""

    @contextlib.contextmanager
    def hold(self, job_id: str, checkpoint_id: str) -> Iterator[None]:
        yield

    def forget(self, job_id: str, keep: int) -> tuple[str, ...]:
        self.kept = keep
        return ()

    def collect_garbage(self) -> Garbage:
        self.collected += 1
        return Garbage(blocks=0, stored_bytes=0)

    def describe(self) -> str:
        return "in memory"

    def ship(
        self,
        directory: Path,
        label: CheckpointLabel,
        *,
        places: tuple[str, ...],
        key: JobKey | None,
        pace: Callable[[int], None],
        cancelled: Callable[[], bool],
    ) -> Manifest:
        from gpunion.ports.vault import ShipCancelled

        self.keys.append(key)
        self.places.append(places)
        self.begin(label.job_id, label.epoch)
        if self.ship_fault is not None:
            fault, self.ship_fault = self.ship_fault, None
            raise fault
        tree = {
            path.relative_to(directory).as_posix(): path.read_text()
            for path in sorted(directory.rglob("*"))
            if path.is_file()
        }
        while self.gate is not None and not self.gate.wait(0.001):
            if cancelled():
                raise ShipCancelled("no longer wanted")
        pace(sum(map(len, tree.values())))
        manifest = a_manifest(label.checkpoint_id, label.step, epoch=label.epoch, tier=label.tier)
        self.trees[label.checkpoint_id] = tree
        self.sealed.append(manifest)
        return manifest

    def restore(
        self,
        manifest: Manifest,
        into: Path,
        *,
        places: tuple[str, ...],
        key: JobKey | None,
        source: PeerPass | None,
        told: Callable[[int], None],
    ) -> Fetched:
        self.places.append(places)
        self.keys.append(key)
        if manifest.checkpoint_id in self.broken:
            raise self.broken[manifest.checkpoint_id]
        for name, text in self.trees.get(manifest.checkpoint_id, {"checkpoint/state": "saved"}).items():
            path = into / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            told(len(text))
        return Fetched()


class FakeLink:
    """A coordinator that says what the test tells it to."""

    def __init__(self) -> None:
        self.trees: dict[str, bytes] = {}
        self.blocks: dict[str, bytes] = {}
        self.asked: list[list[str]] = []
        self.fetch_faults: list[LinkFault] = []
        self.cut_after: int | None = None  # the next stream of blocks ends after so many
        self.logs: dict[str, bytes] = {}
        self.log_fault: LinkFault | None = None
        self.refused: LinkFault | None = None
        self.connections = 0
        self.sent: list[AgentFrame] = []
        self.places: tuple[Place, ...] = ()
        self.to_agent: asyncio.Queue[CoordinatorFrame | None] = asyncio.Queue()

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[FakeLink]:
        self.connections += 1
        if self.refused is not None:
            raise self.refused
        yield self

    async def send(self, frame: AgentFrame) -> None:
        self.sent.append(frame)

    async def frames(self) -> AsyncIterator[CoordinatorFrame]:
        while (frame := await self.to_agent.get()) is not None:
            yield frame

    def serve(self, tree: SmallTree) -> str:
        self.trees[tree.digest] = tree.listing
        self.blocks |= tree.blocks
        return tree.digest

    async def fetch_tree(self, digest: str) -> bytes:
        if self.fetch_faults:
            raise self.fetch_faults.pop(0)
        return self.trees[digest]

    async def fetch_blocks(self, names: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]:
        self.asked.append(list(names))
        for count, name in enumerate(names):
            if count == self.cut_after:
                self.cut_after = None
                raise LinkFault("the cable was pulled", temporary=True)
            if name in self.blocks:
                yield name, self.blocks[name]

    async def fetch_places(self) -> tuple[Place, ...]:
        if self.refused is not None:
            raise self.refused
        return self.places

    async def push_log(self, run_id: str, offset: int, data: bytes) -> int:
        if self.log_fault is not None:
            raise self.log_fault
        have = self.logs.get(run_id, b"")
        if offset <= len(have):
            self.logs[run_id] = have[:offset] + data if offset + len(data) > len(have) else have
        return len(self.logs.get(run_id, b""))

    async def close(self) -> None:
        pass


@dataclass
class FakeWorld:
    root: Path
    journal: list[str] = field(default_factory=list)
    posted: list[AgentEvent] = field(default_factory=list)
    killed: bool = False

    def __post_init__(self) -> None:
        self.runtime = FakeRuntime(self.root / "guests", self.journal)
        self.vault = MemoryVault(self.journal)
        self.control = MemoryControl()
        self.link = FakeLink()
        self.clock = ManualClock()
        self.notebook = Notebook(self.root / "runs")
        self.notebook.open()
        self.world = World(
            state_dir=self.root,
            runtime=self.runtime,
            open_vault=lambda places: self.vault,
            ship=self.vault.ship,
            restore=self.vault.restore,
            control=self.control,
            link=self.link,
            clock=self.clock,
            notebook=self.notebook,
            blocks=DirectoryCache(self.root / "cache", limit_bytes=GIB),
            owner_has_killed=lambda: self.killed,
            post=self.posted.append,
        )

    def of(self, kind: type) -> list[AgentEvent]:
        return [event for event in self.posted if isinstance(event, kind)]


RUN, JOB = RunId("job-1-e1"), JobId("job-1")


def an_order(**changes: object) -> StartRun:
    fields: dict[str, object] = {
        "run_id": RUN,
        "job_id": JOB,
        "epoch": 1,
        "command": ("python", "train.py"),
        "environment": (("SEED", "1"),),
        "bundle": None,
        "grant": Grant(gpu_indices=(0,), cpus=1.0, memory_bytes=GIB),
        **changes,
    }
    return StartRun(**fields)  # type: ignore[arg-type]


def a_manifest(checkpoint_id: str, step: int, *, epoch: int = 1, tier: str = "app") -> Manifest:
    return Manifest(
        checkpoint_id=checkpoint_id,
        job_id=JOB,
        epoch=epoch,
        step=step,
        progress=0.5,
        tier=tier,
        parent=None,
        created_s=0.0,
        files=(),
        block_size_bytes=1,
        total_bytes=10,
        new_bytes=5,
    )


def some_facts(**terms: object) -> NodeFacts:
    gpus = (Gpu(index=0, model="declared", memory_bytes=8 * GIB),)
    capacity = Capacity(gpus=gpus, cpus=4.0, memory_bytes=8 * GIB, uplink_bps=1e9)
    return NodeFacts(lab="alpha", capacity=capacity, terms=Terms(**terms))  # type: ignore[arg-type]


def a_station(saved: SavedAgent | None = None) -> AgentStation:
    return AgentStation(
        node_id=NodeId("a1"),
        facts=some_facts(),
        saved=saved or SavedAgent(incarnation="first"),
        timing=Timing(),
    )


def a_checkpoint(number: int) -> CheckpointId:
    return CheckpointId(f"{RUN}-c{number}")
