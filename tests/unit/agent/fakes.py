"""The agent's world for a test: every part named, none of it real."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpunion.agent.dependencies import World
from gpunion.agent.run_records.notes import RunNotes
from gpunion.domain.protocol.commit import SavedAgent
from gpunion.domain.protocol.events import AgentEvent
from gpunion.domain.resources import GIB
from gpunion.ports.agent_disk import DiskFault, Remembered
from gpunion.vault.cache import DirectoryCache
from tests.builders.memory_vault import MemoryVault
from tests.unit.agent.fake_link import FakeLink
from tests.unit.agent.fake_runtime import FakeRuntime


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
    """Remembers every write, but while `full` or `failing`."""

    def __init__(self, journal: list[str] | None = None) -> None:
        self.writes: list[SavedAgent] = []
        self.full = self.failing = False
        self.journal = journal if journal is not None else []

    def load(self, now_s: float) -> Remembered:
        return Remembered(saved=self.writes[-1] if self.writes else SavedAgent(incarnation="first"))

    def write(self, saved: SavedAgent) -> None:
        if self.full:
            raise DiskFault("the disk is full", no_room=True)
        if self.failing:
            raise DiskFault("the disk fails")
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
        self.run_notes = RunNotes(self.root / "runs")
        self.run_notes.open()
        self.world = World(
            state_dir=self.root,
            runtime=self.runtime,
            open_vault=lambda places: self.vault,
            ship=self.vault.ship,
            restore=self.vault.restore,
            control=self.control,
            link=self.link,
            clock=self.clock,
            run_notes=self.run_notes,
            blocks=DirectoryCache(self.root / "cache", limit_bytes=GIB),
            owner_has_killed=lambda: self.killed,
            post=self.posted.append,
        )

    def of(self, kind: type) -> list[AgentEvent]:
        return [event for event in self.posted if isinstance(event, kind)]
