"""A running agent: its parts, the world its hands work in, and what it tells of its machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from gpunion.adapters.agentdisk import JsonAgentDisk
from gpunion.adapters.containers.freezing import ContainerFreezer
from gpunion.adapters.containers.runtime import ContainerRuntime
from gpunion.adapters.cuda import CudaMemory
from gpunion.adapters.files.cache import DirectoryCache
from gpunion.adapters.files.known import KnownFiles
from gpunion.adapters.files.ready import DirectoryReady, restore_from_ready
from gpunion.adapters.files.replicas import DeskReplicas
from gpunion.adapters.files.restore import restore_directory
from gpunion.adapters.files.ship import ship_directory
from gpunion.adapters.http.link import HttpLink
from gpunion.adapters.peers.address import address_towards
from gpunion.adapters.peers.client import TcpPeers
from gpunion.adapters.peers.server import BlockServer
from gpunion.adapters.pip.installed import PipPackages
from gpunion.adapters.podman.whole import PodmanRuntime
from gpunion.adapters.sandbox import control
from gpunion.adapters.sandbox.freezing import GuestFreezer
from gpunion.agent.caps import Caps
from gpunion.agent.carrying import Carrier
from gpunion.agent.compose.folders import AGENT_DIR, CACHE_DIR
from gpunion.agent.compose.gpus import gpus_of
from gpunion.agent.compose.images import images_of
from gpunion.agent.compose.keeping import KeptHere, keeper_host, keeper_server, kept_here
from gpunion.agent.compose.runtimes import runtime_of
from gpunion.agent.compose.storage import storage_of
from gpunion.agent.counter import Counter
from gpunion.agent.environment import EnvironmentKeeper
from gpunion.agent.images import ImageKeeper
from gpunion.agent.owner_word import owner_has_killed
from gpunion.agent.parking import GuestParker
from gpunion.agent.peering import PeerDesk
from gpunion.agent.replicating import Replicator
from gpunion.agent.run_notes import Notebook
from gpunion.agent.sending import KEEP_CHECKPOINTS
from gpunion.agent.settings import Settings, terms_now
from gpunion.agent.storage import Storage
from gpunion.agent.unsent import UNSENT_DIR, UnsentOutputs
from gpunion.agent.world import World
from gpunion.domain.events import AgentEvent
from gpunion.domain.guest import Tenure
from gpunion.domain.node import NodeFacts
from gpunion.domain.resources import Capacity
from gpunion.domain.system_tier import UNTRIED, SystemAbility
from gpunion.engine.agent_station import AgentStation
from gpunion.ports.agent_disk import AgentDisk
from gpunion.ports.checkpointer import Checkpointer
from gpunion.ports.clock import BootClock, Clock
from gpunion.ports.coordinator_link import CoordinatorLink
from gpunion.ports.gpus import Gpus
from gpunion.ports.peers import BlockServing
from gpunion.ports.runtime import Runtime

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
    tenure: Callable[[], Tenure],
) -> World:
    peers, ready = TcpPeers(), ready_of(settings)
    desk = PeerDesk(ready, parts.caps, tenure) if settings.data_port else None
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
        notebook=Notebook(settings.state_dir / AGENT_DIR / "runs"),
        blocks=DirectoryCache(settings.state_dir / CACHE_DIR / "blocks", limit_bytes=settings.cache_bytes),
        environments=_environments(settings),
        owner_has_killed=lambda: owner_has_killed(settings.state_dir),
        post=post,
        look_at_gpus=look_at_gpus,
        images=parts.images,
        checkpointer=parts.checkpointer,
        parker=parts.parker,
        caps=parts.caps,
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
    settings: Settings, parts: Parts, station: AgentStation, greet_again: Callable[[], None]
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
    return NodeFacts(
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
