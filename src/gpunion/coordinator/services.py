"""Everything a route may use, in one place; made in `compose`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from fastapi import Request
from starlette.requests import HTTPConnection

from gpunion.coordinator.credentials import Keyring
from gpunion.coordinator.image_archives import ImageArchives
from gpunion.coordinator.job_ids import JobNames
from gpunion.coordinator.job_logs import JobLogs
from gpunion.coordinator.locations.configured import CampusPlaces
from gpunion.coordinator.locations.marks import PlaceMarks
from gpunion.coordinator.locations.node_disks import Keepers
from gpunion.coordinator.locations.space import PlaceSpace
from gpunion.coordinator.loop.clock import SteadyClock
from gpunion.coordinator.loop.connections import Switchboard
from gpunion.coordinator.loop.event_watchers import Hub
from gpunion.coordinator.loop.health import Ledger
from gpunion.coordinator.loop.latest import Latest
from gpunion.coordinator.loop.loop import Loop
from gpunion.coordinator.loop.pace import Pace
from gpunion.coordinator.metrics.hardware import Hardware
from gpunion.coordinator.metrics.page import MetricsPage
from gpunion.coordinator.requests.bodies import Bodies
from gpunion.coordinator.sessions.tunnels import Tunnels
from gpunion.coordinator.sessions.waiting import Waiting
from gpunion.coordinator.usage.book import UsageBook
from gpunion.coordinator.whereabouts import Whereabouts
from gpunion.domain.jobs.job import Job
from gpunion.domain.timing import Timing
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.engine.coordinator.state import CampusState
from gpunion.ports.database import Store
from gpunion.vault.interfaces import JudgedDesk
from gpunion.vault.manifest import Vault
from gpunion.vault.trees import Trees
from gpunion.wire.v1.campus import WindowList


@dataclass(frozen=True, slots=True, kw_only=True)
class Campus:
    vault: str
    timing: Timing
    clock: SteadyClock
    store: Store
    trees: Trees
    open_vault: Callable[[tuple[str, ...]], Vault]  # by the names of a job's places
    whereabouts: Whereabouts
    places: CampusPlaces
    vault_desk: Callable[[], JudgedDesk]
    keepers: Keepers
    marks: PlaceMarks  # in the folders as well: a node that finds one there shares that folder
    space: PlaceSpace
    station: PureCoordinator
    loop: Loop
    hub: Hub
    switchboard: Switchboard
    keyring: Keyring
    logs: JobLogs
    archives: ImageArchives
    names: JobNames
    ledger: Ledger
    metrics: MetricsPage
    usage: UsageBook
    hardware: Hardware
    pace: Pace
    tunnels: Tunnels = field(default_factory=Tunnels)
    waiting: Waiting = field(default_factory=Waiting)
    # Submissions with a key take turns: of two with one key at once, the second must see the first's job.
    keyed: asyncio.Lock = field(default_factory=asyncio.Lock)
    bodies: Bodies = field(default_factory=Bodies)
    windows: Latest[WindowList] = field(default_factory=Latest)  # as those who watch them see them

    @property
    def state(self) -> CampusState:
        """For reading. Between two commits it is exactly what the store has."""
        return self.station.engine.state

    def jobs_and_held(self) -> list[Job] | None:
        """None where there is a held job of which nobody can read what it needs."""
        held = self.state.held.values()
        if any(one.job is None and not one.given_up for one in held):
            return None
        return [*self.state.jobs.values(), *(one.job for one in held if one.job is not None)]


def of_connection(connection: HTTPConnection) -> Campus:
    campus = connection.app.state.campus
    assert isinstance(campus, Campus)
    return campus


def campus_of(request: Request) -> Campus:
    return of_connection(request)
