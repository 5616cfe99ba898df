"""Puts a coordinator together: the only place that picks adapters."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from gpunion.adapters.sql.database import SqlStore
from gpunion.adapters.usage_history import SqliteUsageHistory
from gpunion.coordinator.credentials import Keyring
from gpunion.coordinator.damage.loss import tell_of_loss
from gpunion.coordinator.data_dir import (
    ADMIN_FILE,
    DATABASE_FILE,
    IMAGES_DIR,
    LOGS_DIR,
    PLACES_DIR,
    TREES_DIR,
    USAGE_FILE,
    shut_to_others,
)
from gpunion.coordinator.image_archives import ImageArchives
from gpunion.coordinator.job_ids import JobNames
from gpunion.coordinator.job_logs import JobLogs
from gpunion.coordinator.locations.configured import CampusPlaces, places_from
from gpunion.coordinator.locations.marks import PlaceMarks
from gpunion.coordinator.locations.node_disks import Keepers
from gpunion.coordinator.locations.space import PlaceSpace, Space
from gpunion.coordinator.loop.clock import SteadyClock
from gpunion.coordinator.loop.connections import Switchboard
from gpunion.coordinator.loop.crash_point import CrashPoint
from gpunion.coordinator.loop.event_watchers import Hub
from gpunion.coordinator.loop.health import Ledger
from gpunion.coordinator.loop.loop import Loop
from gpunion.coordinator.loop.pace import Pace
from gpunion.coordinator.metrics import gauges, series
from gpunion.coordinator.metrics.contribution import Contribution
from gpunion.coordinator.metrics.counting import Counting
from gpunion.coordinator.metrics.hardware import Hardware
from gpunion.coordinator.metrics.page import MetricsPage
from gpunion.coordinator.requests.bodies import Bodies
from gpunion.coordinator.services import Campus
from gpunion.coordinator.settings import NO_WINDOWS, VAULT_DIR, BadSettings, Settings
from gpunion.coordinator.usage.book import UsageBook
from gpunion.coordinator.whereabouts import Whereabouts
from gpunion.domain.protocol.commit import SavedCampus
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.policy.policies import BUNDLES, Policies
from gpunion.policy.preemption import PREEMPTION
from gpunion.policy.quota import HIGH_GPUS_A_USER
from gpunion.policy.windows.policy import WindowPolicy
from gpunion.policy.windows.scoring import WEIGHTS
from gpunion.policy.windows.turns import TurnBounds
from gpunion.ports.database import Mend, Store
from gpunion.ports.metrics import Metrics, Sample, Uncounted
from gpunion.vault.bounded import bounded_desk, bounded_vault
from gpunion.vault.claim import CAMPUS_FILE, claimed_by
from gpunion.vault.directory_store import DirectoryTrees
from gpunion.vault.disk_quota import ROOM_TO_BEGIN_BYTES, leaving_free
from gpunion.vault.http.vault_desk import desk_at_keeper
from gpunion.vault.interfaces import JudgedDesk
from gpunion.vault.locations import CAMPUS, Place, PlaceKind
from gpunion.vault.manifest import Vault, VaultUnavailable
from gpunion.vault.mark import mark_of, why_not
from gpunion.vault.place import open_place
from gpunion.vault.replicated import NamedVault, ReplicatedVault
from gpunion.vault.shared import check
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.timeout_guard import Patience
from gpunion.vault.trees import Trees
from gpunion.vault.vault import MirrorVault

# A client gives up after 30 s. Where checkpoints lie is nice to know; reading one is worth more of a wait.
WHERE_LIMIT_S = 5.0
READ_LIMIT_S = 10.0
DESK_STALL_S = 40.0  # a node waits for a minute: it is told before
# Of a machine that keeps a place, for somebody who waits: once more, since it hangs up on idle connections.
KEEPER_SILENCE_S = 20.0
KEEPER_TRIES = 2
MIRROR_LIMIT_BYTES = 2 * 1024**3  # what was fetched for `gpunion cp`, of each bucket


def sqlite_store(settings: Settings, mend: Mend = Mend.NOTHING) -> Store:
    """The admin token, and who uses the vault in our folder, tell that there was a campus here."""
    folder = settings.data_dir
    witnesses = (folder / ADMIN_FILE, folder / VAULT_DIR / CAMPUS_FILE)
    return SqlStore(folder / DATABASE_FILE, mend=mend, witnesses=witnesses)


def trees_of(settings: Settings) -> Trees:
    return DirectoryTrees(settings.data_dir / TREES_DIR, keep_free_bytes=settings.keep_free_bytes)


def _desk_opener(settings: Settings, vault: Callable[[], Place]) -> Callable[[], JudgedDesk]:
    """One for all requests, since it keeps what nodes hold; opened when a node first asks."""

    def open_own() -> JudgedDesk:
        folder = Path(vault().directory)
        allow = leaving_free(folder, settings.keep_free_bytes, settings.data_dir)
        return DirectoryDesk(DirectoryVault(folder, allow=allow), partial(allow, ROOM_TO_BEGIN_BYTES))

    lock = threading.Lock()
    opened: list[JudgedDesk] = []
    patience = Patience(READ_LIMIT_S, DESK_STALL_S)

    def open_desk() -> JudgedDesk:
        # Also of one that was opened before: it may not be mounted any more.
        patience.carry(CAMPUS, lambda: check(vault()))
        with lock:
            if not opened:
                desk = patience.ask(CAMPUS, open_own)
                opened.append(bounded_desk(desk, CAMPUS, patience))
            return opened[0]

    return open_desk


def _places(settings: Settings) -> CampusPlaces:
    try:
        return places_from(settings.places, settings.place, settings.replicas)
    except ValueError as error:
        raise BadSettings(str(error)) from error


def _marks(settings: Settings, places: CampusPlaces, store: Store) -> PlaceMarks:
    """Of the folders: the coordinator makes marks, nodes do not."""
    folders = [place for place in places.known.values() if place.kind is PlaceKind.DIRECTORY]
    return PlaceMarks(
        store,
        [replace(places.known[CAMPUS], directory=settings.vault_place), *folders],
        make=lambda directory: mark_of(Path(directory)),
        why_not=partial(why_not, where="where the coordinator runs"),
        ask=Patience(WHERE_LIMIT_S).ask,
        claim=lambda directory, who, *, anew: claimed_by(Path(directory, CAMPUS_FILE), who, anew=anew),
    )


def _space(settings: Settings, places: CampusPlaces) -> PlaceSpace:
    folders = {place.name: place.directory for place in places.known.values() if place.directory}

    def look(directory: str) -> Space:
        about = os.statvfs(directory)
        beside_us = os.stat(directory).st_dev == os.stat(settings.data_dir).st_dev
        return Space(
            free_bytes=about.f_bavail * about.f_frsize,
            total_bytes=about.f_blocks * about.f_frsize,
            kept_bytes=settings.keep_free_bytes if beside_us else 0,
            read_only=bool(about.f_flag & os.ST_RDONLY),
        )

    return PlaceSpace(
        {CAMPUS: settings.vault_place, **folders},
        look=look,
        ask=Patience(WHERE_LIMIT_S).ask,
    )


def _open_elsewhere(place: Place, mirrors: Path) -> Vault:
    if place.kind is not PlaceKind.NODE:
        return open_place(place, os.environ, mirrors, MIRROR_LIMIT_BYTES).vault
    desk = desk_at_keeper(
        place, silence_limit_s=KEEPER_SILENCE_S, connect_limit_s=WHERE_LIMIT_S, tries=KEEPER_TRIES
    )
    mirrors.mkdir(mode=0o700, parents=True, exist_ok=True)
    return MirrorVault(desk, mirrors / place.name, limit_bytes=MIRROR_LIMIT_BYTES)


def _vault_opener(
    settings: Settings, places: CampusPlaces, marks: PlaceMarks, keepers: Keepers
) -> Callable[[tuple[str, ...]], Vault]:
    """For reading what jobs leave. What is elsewhere is opened when it is first needed, and stays open."""
    lock = threading.Lock()
    elsewhere: dict[str, tuple[Place, Vault]] = {}
    patience = Patience(READ_LIMIT_S, DESK_STALL_S)

    def open_own() -> Vault:
        folder = marks.folder(CAMPUS)
        check(folder)
        return DirectoryVault(folder.directory, create=False)

    def open_one(name: str) -> Vault:
        place = places.known.get(name)
        if place is None:
            raise VaultUnavailable(f"the campus has no place called {name!r} any more")
        if place.kind is PlaceKind.CAMPUS:
            return bounded_vault(patience.ask(name, open_own), name, patience)
        mirrors = settings.data_dir / PLACES_DIR
        if place.kind is PlaceKind.DIRECTORY:
            vault = patience.ask(name, lambda: open_place(marks.marked(place), os.environ, mirrors, 0).vault)
            return bounded_vault(vault, name, patience)
        told = keepers.told(place)
        with lock:
            described, found = elsewhere.get(name, (told, None))
        if described != told or found is None:
            # Opened without the lock: a bucket that is silent keeps nobody from the others.
            found = _open_elsewhere(told, mirrors)
            with lock:
                elsewhere[name] = told, found
        return found

    def open_vault(names: tuple[str, ...]) -> Vault:
        if len(names) < 2:
            return open_one(names[0] if names else CAMPUS)
        return ReplicatedVault([NamedVault(name, partial(open_one, name)) for name in names], patience)

    return open_vault


def _metrics() -> Metrics:
    """A campus is served without its figures where an upgrade came without what it needs."""
    try:
        from gpunion.adapters.prometheus import PrometheusMetrics
    except ModuleNotFoundError as missing:
        return Uncounted(f"nothing is counted here: there is no Python package {missing.name!r}")
    return PrometheusMetrics(series.COUNTED)


async def open_campus(
    settings: Settings,
    store: Store | None = None,
    clock: SteadyClock | None = None,
    mend: Mend = Mend.NOTHING,
) -> Campus:
    """Takes the lead and loads what was committed. The caller runs the loop and closes the store."""
    if settings.policies not in BUNDLES:
        known = ", ".join(sorted(BUNDLES))
        raise BadSettings(f"no policies are called {settings.policies!r}; known are {known}")
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = store or sqlite_store(settings, mend)
    clock = clock or SteadyClock()
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    term = await store.open(holder=holder, now_s=clock.now_s(), lead_s=settings.lead_s)
    try:
        shut_to_others(settings.data_dir)
        return await _assemble(settings, store, clock, term)
    except BaseException:
        await store.close(term=term)
        raise


def _chosen(settings: Settings) -> Policies:
    bundle = replace(BUNDLES[settings.policies], high_gpus_a_user=HIGH_GPUS_A_USER)
    bundle = replace(bundle, windows=_windows(settings, bundle.windows))
    return replace(bundle, preemption=PREEMPTION[settings.preemption]) if settings.preemption else bundle


def _windows(settings: Settings, usual: WindowPolicy | None) -> WindowPolicy | None:
    """None where the bundle gives none, or the operator does not want any."""
    if usual is None or settings.windows == NO_WINDOWS:
        return None
    bounds = TurnBounds(least_s=settings.turn_least_s, most_s=settings.turn_most_s)
    weights = WEIGHTS[settings.windows]
    return replace(usual, name=f"windows-{weights.name}", weights=weights, bounds=bounds)


def _by_the_clock_on_the_wall(policies: Policies) -> Policies:
    """Owners come and go by the local time, and the coordinator's machine is where they are."""
    if policies.learning is None:
        return policies
    offset_s = float(time.localtime().tm_gmtoff)
    return replace(policies, learning=replace(policies.learning, utc_offset_s=offset_s))


def _station(settings: Settings, saved: SavedCampus, term: int, now_s: float) -> PureCoordinator:
    policies = _by_the_clock_on_the_wall(_chosen(settings))
    return PureCoordinator(saved=saved, policies=policies, timing=settings.timing, term=term, now_s=now_s)


def _counted(loop: Loop, settings: Settings, clock: SteadyClock, metrics: Metrics) -> UsageBook:
    history = SqliteUsageHistory(settings.data_dir / USAGE_FILE)

    def count_fault() -> None:
        metrics.count(series.HISTORY_FAULTS)

    book = UsageBook(history, lambda: loop.station.engine.state, clock.now_s, count_fault)
    loop.observers.append(lambda commit, _line: book.committed(commit))
    return book


def _page(
    metrics: Metrics,
    loop: Loop,
    clock: SteadyClock,
    switchboard: Switchboard,
    ledger: Ledger,
    hardware: Hardware,
) -> MetricsPage:
    station = loop.station
    contribution = Contribution(station.engine.state, clock.now_s())

    def now() -> Iterable[Sample]:
        now_s = clock.now_s()
        given_s = contribution.look(station.engine.state, now_s)
        shown = gauges.samples(station, now_s, switchboard.lines, ledger.counters, given_s)
        return chain(shown, hardware.samples(station.engine.state.nodes))

    return MetricsPage(metrics, now)


async def _assemble(settings: Settings, store: Store, clock: SteadyClock, term: int) -> Campus:
    clock.not_before(await store.newest_s())
    saved = await store.load()
    tell_of_loss(saved)
    station = _station(settings, saved, term, clock.now_s())
    switchboard, hub, ledger = Switchboard(), Hub(), Ledger()
    metrics = _metrics()
    loop = Loop(
        station=station,
        store=store,
        clock=clock,
        switchboard=switchboard,
        ledger=ledger,
        counting=Counting(metrics),
        crash_point=CrashPoint(os.environ),
        lead_s=settings.lead_s,
        strict_audit=settings.strict_audit,
    )
    loop.observers.append(lambda _commit, line: hub.publish(line))
    usage = _counted(loop, settings, clock, metrics)
    keyring = Keyring(store, clock.now_s)
    await keyring.load()
    archives = ImageArchives(settings.data_dir / IMAGES_DIR)
    listed = station.engine.state.images.values()
    archives.sweep(entry.archive.digest for entry in listed if entry.archive is not None)
    places = _places(settings)
    marks = _marks(settings, places, store)
    await marks.load()
    keepers = Keepers(store, nodes=lambda: station.engine.state.nodes, now_s=clock.now_s)
    await keepers.load()
    open_vault = _vault_opener(settings, places, marks, keepers)
    hardware = Hardware(clock.now_s)
    return Campus(
        vault=settings.vault_place,
        timing=settings.timing,
        clock=clock,
        store=store,
        trees=trees_of(settings),
        open_vault=open_vault,
        whereabouts=Whereabouts(open_vault, Patience(WHERE_LIMIT_S).ask),
        places=places,
        keepers=keepers,
        marks=marks,
        space=_space(settings, places),
        vault_desk=_desk_opener(settings, partial(marks.folder, CAMPUS)),
        station=station,
        loop=loop,
        hub=hub,
        switchboard=switchboard,
        keyring=keyring,
        logs=JobLogs(settings.data_dir / LOGS_DIR),
        archives=archives,
        names=JobNames(clock.now_s),
        ledger=ledger,
        usage=usage,
        bodies=Bodies(settings.data_dir),
        hardware=hardware,
        pace=Pace(time.monotonic),
        metrics=_page(metrics, loop, clock, switchboard, ledger, hardware),
    )
