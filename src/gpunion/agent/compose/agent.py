"""A running agent: its parts, the world its hands work in, and what it tells of its machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from gpunion.adapters.agentdisk import JsonAgentDisk
from gpunion.adapters.cuda import CudaMemory
from gpunion.adapters.http.link import HttpLink
from gpunion.adapters.http.tunnel import WebSocketTunnel
from gpunion.adapters.networks import address_towards
from gpunion.adapters.pip_packages import PipPackages
from gpunion.adapters.runtimes.containers.freezing import ContainerFreezer
from gpunion.adapters.runtimes.containers.runtime import ContainerRuntime
from gpunion.adapters.runtimes.keeper import control_files as control
from gpunion.adapters.runtimes.keeper.freezer import GuestFreezer
from gpunion.adapters.runtimes.podman.whole import PodmanRuntime
from gpunion.agent.checkpoints.carrying import Carrier
from gpunion.agent.checkpoints.replication import Replicator
from gpunion.agent.checkpoints.shipping import KEEP_CHECKPOINTS
from gpunion.agent.checkpoints.unsent_outputs import UNSENT_DIR, UnsentOutputs
from gpunion.agent.compose.calendar import calendar
from gpunion.agent.compose.gpus import gpus_of
from gpunion.agent.compose.images import images_of
from gpunion.agent.compose.lent_disk import KeptHere, keeper_host, keeper_server, kept_here
from gpunion.agent.compose.runtime_files import AGENT_DIR, CACHE_DIR
from gpunion.agent.compose.runtimes import runtime_of
from gpunion.agent.compose.vault import storage_of
from gpunion.agent.dependencies import World
from gpunion.agent.link.plausible import plausible
from gpunion.agent.machine.block_server import Counter, desk_for_others
from gpunion.agent.machine.caps import Caps
from gpunion.agent.machine.images import ImageKeeper
from gpunion.agent.machine.packages import EnvironmentKeeper
from gpunion.agent.machine.parking import GuestParker
from gpunion.agent.metrics.guest_gpus import GpuUse
from gpunion.agent.owner.kill_file import owner_has_killed
from gpunion.agent.run_records.notes import RunNotes
from gpunion.agent.sessions.gate import StreamGate
from gpunion.agent.settings import Settings, terms_now
from gpunion.domain.ids import RunId
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.protocol.events import AgentEvent
from gpunion.domain.resources import Capacity
from gpunion.domain.system_tier import UNTRIED, SystemAbility
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.ports.agent_disk import AgentDisk
from gpunion.ports.calendar import Calendar
from gpunion.ports.checkpointer import Checkpointer
from gpunion.ports.clock import BootClock, Clock
from gpunion.ports.coordinator_link import CoordinatorLink
from gpunion.ports.gpus import Gpus
from gpunion.ports.guest_streams import GuestStreams, TunnelLink
from gpunion.ports.runtime import Runtime
from gpunion.vault.cache import DirectoryCache
from gpunion.vault.files_ready import DirectoryReady, restore_from_ready
from gpunion.vault.http.client import TcpPeers
from gpunion.vault.http.running_saves import PeerDesk
from gpunion.vault.http.server import BlockServer
from gpunion.vault.opener import Storage
from gpunion.vault.peers import BlockServing
from gpunion.vault.transfer.download import restore_directory
from gpunion.vault.transfer.known import KnownFiles
from gpunion.vault.transfer.replicate import DeskReplicas
from gpunion.vault.transfer.ship import ship_directory

REPLICAS_FILE = "replicas.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an agent is made of on this machine."""

    runtime: Runtime
    link: CoordinatorLink
    disk: AgentDisk
    clock: Clock
    gpus: Gpus
    allow_places: Callable[[tuple[str, ...]], None]
    storage: Storage
    caps: Caps
    replicator: Replicator
    unsent: UnsentOutputs
    calendar: Calendar
    tunnel: TunnelLink
    guest_streams: GuestStreams
    images: ImageKeeper | None = None
    checkpointer: Checkpointer | None = None  # where the runtime can dump its guests whole
    kept: KeptHere | None = None  # where the owner lends disk for checkpoints of others
    parker: GuestParker | None = None  # where guests can be moved off their GPUs into memory


def compose(settings: Settings) -> Parts:
    """RuntimeFault where guests could not be shut in and the owner has not allowed that."""
    gpus = gpus_of(settings)
    runtime = runtime_of(settings, gpus)
    link = HttpLink(settings.coordinator, settings.credential())
    kept = kept_here(settings)
    storage, caps = storage_of(settings, kept), Caps()
    if kept is not None:
        kept.others = storage.folders
    return Parts(
        runtime=runtime,
        link=link,
        disk=JsonAgentDisk(settings.state_dir / AGENT_DIR),
        clock=BootClock(),
        gpus=gpus,
        allow_places=runtime.allow_places,
        storage=storage,
        caps=caps,
        replicator=Replicator(
            DeskReplicas(storage.desk, keep=KEEP_CHECKPOINTS),
            settings.state_dir / AGENT_DIR / REPLICAS_FILE,
            lambda cancelled: lambda sent_bytes: caps.pace(sent_bytes, cancelled),
        ),
        unsent=UnsentOutputs(settings.state_dir / UNSENT_DIR, bound_bytes=lambda: caps.disk_bytes or None),
        calendar=calendar(),
        tunnel=WebSocketTunnel(settings.coordinator, settings.credential()),
        guest_streams=runtime,
        images=images_of(settings, runtime, link),
        checkpointer=runtime if isinstance(runtime, PodmanRuntime) else None,
        kept=kept,
        parker=parker_of(settings, runtime, gpus),
    )


def parker_of(settings: Settings, runtime: Runtime, gpus: Gpus) -> GuestParker | None:
    """For guests that are processes of this machine, on GPUs whose driver is here."""
    if not gpus.watched:
        return None
    in_containers = isinstance(runtime, ContainerRuntime)
    return GuestParker(
        freezer=(ContainerFreezer if in_containers else GuestFreezer)(settings.state_dir),
        memory=CudaMemory(),
        gpus=gpus,
        allowed_bytes=lambda: terms_now(settings).park_bytes,
    )


def world_of(
    settings: Settings,
    parts: Parts,
    post: Callable[[AgentEvent], None],
    look_at_gpus: Callable[[], Awaitable[None]],
    owner_state: Callable[[], OwnerState],
    gate: StreamGate,
    gpu_use: Callable[[RunId], GpuUse | None],
) -> World:
    peers, ready = TcpPeers(), ready_of(settings)
    desk = desk_for_others(ready, parts.caps, owner_state) if settings.data_port else None
    carrier = Carrier(
        open_vault=parts.storage.open,
        ready=ready,
        peers=peers,
        desk=desk,
        ship_directory=partial(ship_directory, known=KnownFiles()),
        restore_directory=restore_directory,
        restore_from_ready=restore_from_ready,
    )
    return World(
        state_dir=settings.state_dir,
        runtime=parts.runtime,
        open_vault=parts.storage.open,
        ship=carrier.ship,
        restore=carrier.restore,
        control=control,
        link=parts.link,
        clock=parts.clock,
        run_notes=RunNotes(settings.state_dir / AGENT_DIR / "runs"),
        blocks=DirectoryCache(settings.state_dir / CACHE_DIR / "blocks", limit_bytes=settings.cache_bytes),
        environments=_environments(settings),
        owner_has_killed=lambda: owner_has_killed(settings.state_dir),
        post=post,
        look_at_gpus=look_at_gpus,
        gpu_use=gpu_use,
        images=parts.images,
        checkpointer=parts.checkpointer,
        parker=parts.parker,
        caps=parts.caps,
        gate=gate,
        detours=parts.storage.detours,
        ready=ready,
        peers=peers,
        desk=desk,
        replicate=parts.replicator.want,
        outputs=parts.unsent,
    )


def block_server(settings: Settings, desk: PeerDesk) -> BlockServing:
    """Where other machines may fetch blocks. OSError: the address is not this machine's, or is taken."""
    return BlockServer(desk, data_host(settings), settings.data_port)


def counter_of(
    settings: Settings, parts: Parts, station: PureAgent, greet_again: Callable[[], None]
) -> Counter | None:
    """Where other machines hand over checkpoints to be kept here, if the owner lends disk."""
    kept = parts.kept
    if kept is None:
        return None
    return Counter(
        find_host=lambda: keeper_host(settings),
        open_at=lambda host: keeper_server(settings, kept, parts.storage.kept_here, parts.caps.pace, host),
        port=kept.keeps.port,
        station=station,
        greet_again=greet_again,
    )


def data_host(settings: Settings) -> str:
    return settings.data_host or address_towards(settings.coordinator)


def ready_of(settings: Settings) -> DirectoryReady:
    return DirectoryReady(settings.state_dir / CACHE_DIR / "states", limit_bytes=settings.cache_bytes)


def _environments(settings: Settings) -> EnvironmentKeeper | None:
    """For guests that see this machine's own Python; an image has one that we know nothing of."""
    if settings.image is not None:
        return None
    place = settings.state_dir / CACHE_DIR / "packages"
    return EnvironmentKeeper(packages=PipPackages(place, limit_bytes=settings.cache_bytes))


def facts_of(settings: Settings, parts: Parts) -> NodeFacts:
    facts = NodeFacts(
        lab=settings.lab,
        building=settings.building,
        capacity=Capacity(
            gpus=parts.gpus.inventory(),
            cpus=settings.cpus,
            memory_bytes=settings.memory_bytes,
            uplink_bps=settings.uplink_bps,
        ),
        terms=settings.terms,
        runtime=parts.runtime.name,
        sandboxed=parts.runtime.sandboxed,
        image_quota_bytes=None if parts.images is None else settings.image_quota_bytes,
        parks=parts.parker is not None,
        system=SystemAbility() if parts.checkpointer is None else UNTRIED,
        data_address=f"{data_host(settings)}:{settings.data_port}" if settings.data_port else "",
    )
    return plausible(facts)
