"""Everything a route may use, in one place; made in `compose`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from fastapi import Request
from starlette.requests import HTTPConnection

from gpunion.coordinator.archives import ImageArchives
from gpunion.coordinator.auth import Keyring
from gpunion.coordinator.clock import SteadyClock
from gpunion.coordinator.hub import Hub
from gpunion.coordinator.joblogs import JobLogs
from gpunion.coordinator.keepers import Keepers
from gpunion.coordinator.ledger import Ledger
from gpunion.coordinator.loop import Loop
from gpunion.coordinator.marks import PlaceMarks
from gpunion.coordinator.naming import JobNames
from gpunion.coordinator.places import CampusPlaces
from gpunion.coordinator.space import PlaceSpace
from gpunion.coordinator.switchboard import Switchboard
from gpunion.coordinator.whereabouts import Whereabouts
from gpunion.domain.timing import Timing
from gpunion.engine.coordinator_station import CoordinatorStation
from gpunion.engine.state import CampusState
from gpunion.ports.store import Store
from gpunion.ports.trees import Trees
from gpunion.ports.vault import Vault
from gpunion.ports.vault_desk import VaultDesk


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
    vault_desk: Callable[[], VaultDesk]
    keepers: Keepers
    marks: PlaceMarks  # in the folders as well: a node that finds one there shares that folder
    space: PlaceSpace
    station: CoordinatorStation
    loop: Loop
    hub: Hub
    switchboard: Switchboard
    keyring: Keyring
    logs: JobLogs
    archives: ImageArchives
    names: JobNames
    ledger: Ledger
    # Submissions with a key take turns: of two with one key at once, the second must see the first's job.
    keyed: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def state(self) -> CampusState:
        """For reading. Between two commits it is exactly what the store has."""
        return self.station.engine.state


def of_connection(connection: HTTPConnection) -> Campus:
    campus = connection.app.state.campus
    assert isinstance(campus, Campus)
    return campus


def campus_of(request: Request) -> Campus:
    return of_connection(request)
