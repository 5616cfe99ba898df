"""The places for checkpoints that this machine knows, which of them it reaches, and a job's vault in them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import structlog

from gpunion.files import read_json, write_json
from gpunion.vault.detours import Detours
from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.locations import CAMPUS, Place, PlaceKind, place_of, table_of
from gpunion.vault.manifest import Vault, VaultFault, VaultUnavailable
from gpunion.vault.storage import Opened

NOBODY = "gpunion-reach"  # no job is called so: asking for it shows that the place answers

# A coordinator that does not say within so long is an older one, or away.
TOLD_LIMIT_S = 10.0

log = structlog.get_logger()

OpenPlace = Callable[[Place], Opened]
PassedOver = Callable[[str, VaultFault], None]
# Several vaults as one, each by its name and how to open it; and who hears of one the others go on without.
Combine = Callable[[Sequence[tuple[str, Callable[[], Vault]]], PassedOver], Vault]


class Storage:
    """Calls block, from any number of threads. A place is opened once, when it is first needed."""

    def __init__(
        self,
        *,
        open_campus: Callable[[str], Opened],
        open_place: OpenPlace,
        combine: Combine,
        memory: Path,
        node_id: str = "",
        own: Mapping[str, Mapping[str, str]] | None = None,
        campus_folder: bool = False,
    ) -> None:
        """`open_campus` is given the mark that the campus's vault is known by, or nothing. `memory` keeps
        what was told, for a start without the coordinator; among it is how this machine, `node_id`, gets in
        where others keep checkpoints, and who gets in here. `own`: where this machine's owner has written
        something else than the campus has, such as where its credentials are. `campus_folder`: the campus's
        vault is a folder here, and not every folder is it."""
        self._open_campus = open_campus
        self._open_place = open_place
        self._combine = combine
        self.detours = Detours()
        self._memory = memory
        self._node_id = node_id
        self._own = own or {}
        self._lock = threading.Lock()
        self._opened: dict[str, tuple[Place, Opened]] = {}
        self._opening_campus = threading.Lock()
        self._campus: dict[str, Opened] = {}  # by its mark
        self._campus_folder = campus_folder
        self._places = dict(_remembered(memory))
        self._told = threading.Event()
        if self._places:
            self._told.set()
        self._written = True

    def learn(self, places: Iterable[Place]) -> None:
        told = {place.name: place for place in places}
        with self._lock:
            known, self._places = self._places, told
        self._told.set()
        if told == known and self._written:
            return
        try:
            tables: dict[str, object] = {name: table_of(place) for name, place in told.items()}
            write_json(os.fspath(self._memory), tables, private=True)
            self._written = True
        except OSError as error:  # a full disk costs what a restart would know, and is tried again
            self._written = False
            log.warning("places_not_written", file=str(self._memory), trouble=str(error))

    def learn_nothing(self) -> None:
        """The coordinator is an older one, which tells of no places."""
        self._told.set()

    def open(self, names: tuple[str, ...]) -> Vault:
        """VaultUnavailable, VaultDenied. Of several places together: when the first call finds none."""
        if len(names) > 1:
            vaults = [(name, self._opener(name)) for name in names]
            return self._combine(vaults, self.detours.passed_over)
        return self._open_named(names[0] if names else CAMPUS).vault

    def desk(self, name: str) -> VaultDesk:
        return self._open_named(name).desk

    def doubtful(self, *, connected: bool = True) -> tuple[str, ...]:
        """Those that may not be reached, or be full. Where the campus's own vault is reached through the
        coordinator, nothing can be said of it unless that is `connected`."""
        with self._lock:
            named = sorted(
                place.name for place in self._places.values() if place.kind is not PlaceKind.CAMPUS
            )
        return (CAMPUS, *named) if self._campus_folder or connected else tuple(named)

    def kept_here(self) -> tuple[Place, ...]:
        """Those that lie on this machine's own disk."""
        with self._lock:
            return tuple(place for place in self._places.values() if self._is_kept_here(place))

    def folders(self) -> dict[str, str]:
        """The names of the places that are folders, the campus's own vault among them, by their marks."""
        with self._lock:
            return {place.mark: place.name for place in self._places.values() if place.mark}

    def ask(self, name: str) -> None:
        """Whether it answers, now, and has room. VaultUnavailable, VaultDenied, VaultFull."""
        with self._lock:
            place = self._places.get(name)
        # What is not mounted any more looks empty.
        if place is not None and (place.kind is PlaceKind.DIRECTORY or self._is_kept_here(place)):
            self._open_place(self._as_here(place))
        elif name == CAMPUS and self._campus_folder:
            self._open_campus(self._campus_mark())
        opened = self._open_named(name)
        if not self.is_behind_the_coordinator(name):
            opened.vault.latest(NOBODY)
        opened.desk.check_room()

    def is_behind_the_coordinator(self, name: str) -> bool:
        """Nothing can be said of it by who does not reach the coordinator, which is asked nothing then."""
        return name == CAMPUS and not self._campus_folder

    def _opener(self, name: str) -> Callable[[], Vault]:
        return lambda: self._open_named(name).vault

    def _open_named(self, name: str) -> Opened:
        with self._lock:
            place = self._places.get(name)
        if place is None and name != CAMPUS:
            known = ", ".join(sorted({CAMPUS, *self._places}))
            raise VaultUnavailable(f"this machine was told of no place {name!r}; it knows {known}")
        if place is None or place.kind is PlaceKind.CAMPUS:
            return self._open_own()
        place = self._as_here(place)
        opened = self._opened_as(place)
        if opened is None:
            opened = self._open_place(place)
            with self._lock:
                if (others := self._opened_as(place)) is not None:  # somebody was faster: one for all
                    return others
                self._opened[name] = place, opened
        return opened

    def _opened_as(self, place: Place) -> Opened | None:
        """None also where it is described otherwise by now."""
        described, opened = self._opened.get(place.name, (place, None))
        return opened if described == place else None

    def _is_kept_here(self, place: Place) -> bool:
        return place.kind is PlaceKind.NODE and place.node == self._node_id

    def _as_here(self, place: Place) -> Place:
        own = self._own.get(place.name)
        if not own:
            return place
        try:
            return place_of(place.name, {**table_of(place), **own}, told=True)
        except ValueError as error:
            raise VaultUnavailable(f"[places.{place.name}] of this machine: {error}") from error

    def _open_own(self) -> Opened:
        if self._campus_folder:
            # A first guest may come before the coordinator has said which folder is the right one.
            self._told.wait(TOLD_LIMIT_S)
            self._told.set()  # nobody is waited for twice
        # Not the lock of all: a shared folder that hangs keeps nobody from the other places.
        with self._opening_campus:
            mark = self._campus_mark()
            if mark not in self._campus:
                self._campus = {mark: self._open_campus(mark)}
            return self._campus[mark]

    def _campus_mark(self) -> str:
        with self._lock:
            told = self._places.get(CAMPUS)
        return "" if told is None else told.mark


def remembered_mark(memory: Path) -> str:
    """By which the campus's vault is known; empty where that was never told."""
    return next((place.mark for name, place in _remembered(memory) if name == CAMPUS), "")


def _remembered(memory: Path) -> Iterable[tuple[str, Place]]:
    """What cannot be read is told again by the coordinator."""
    for name, table in (read_json(os.fspath(memory)) or {}).items():
        try:
            yield name, place_of(name, table, told=True)
        except ValueError:
            continue
