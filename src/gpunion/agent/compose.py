"""Puts an agent together. The only module here that knows which technologies there are."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpunion.adapters.agentdisk import JsonAgentDisk
from gpunion.adapters.containers.freezing import ContainerFreezer
from gpunion.adapters.containers.runtime import ContainerRuntime
from gpunion.adapters.cuda import CudaMemory, cannot_move
from gpunion.adapters.cuda.hooks import CudaHooks
from gpunion.adapters.declared import DeclaredGpus
from gpunion.adapters.docker.runtime import open_docker
from gpunion.adapters.files.bounded import open_own_bounded
from gpunion.adapters.files.cache import DirectoryCache
from gpunion.adapters.files.directory import DirectoryVault
from gpunion.adapters.files.known import KnownFiles
from gpunion.adapters.files.mark import shares
from gpunion.adapters.files.mirror import MirrorVault
from gpunion.adapters.files.patience import Patience
from gpunion.adapters.files.ready import DirectoryReady, restore_from_ready
from gpunion.adapters.files.replicas import DeskReplicas
from gpunion.adapters.files.replicated import NamedVault, ReplicatedVault
from gpunion.adapters.files.restore import restore_directory
from gpunion.adapters.files.ship import ship_directory
from gpunion.adapters.http.link import HttpLink
from gpunion.adapters.http.requests import HttpRegistrar
from gpunion.adapters.http.vault_desk import HttpVaultDesk
from gpunion.adapters.nvml import driver_is_here, find_gpus
from gpunion.adapters.peers.address import address_towards
from gpunion.adapters.peers.client import TcpPeers
from gpunion.adapters.peers.server import BlockServer
from gpunion.adapters.pip.installed import PipPackages
from gpunion.adapters.podman.probing import PROBE_DIR
from gpunion.adapters.podman.runtime import open_podman
from gpunion.adapters.podman.seccomp import PROFILE_NAME
from gpunion.adapters.podman.whole import PodmanRuntime
from gpunion.adapters.s3.place import open_bounded, open_caretaker, open_desk
from gpunion.adapters.sandbox import cgroups, control
from gpunion.adapters.sandbox.bubblewrap import Bubblewrap, find_bubblewrap
from gpunion.adapters.sandbox.doorway import LIST_FILE
from gpunion.adapters.sandbox.freezing import GuestFreezer
from gpunion.adapters.sandbox.kept import KeptRuntime
from gpunion.adapters.sandbox.runtime import SandboxRuntime
from gpunion.agent.caps import Caps
from gpunion.agent.carrying import Carrier
from gpunion.agent.enrol import Joined, JoinRequest, JoinTrouble
from gpunion.agent.enrol import join as enrol_join
from gpunion.agent.environment import EnvironmentKeeper
from gpunion.agent.found_here import Traces, TriedRuntime
from gpunion.agent.image_shelf import ImageShelf
from gpunion.agent.images import ImageKeeper
from gpunion.agent.owner_word import owner_has_killed
from gpunion.agent.parking import GuestParker
from gpunion.agent.peering import PeerDesk
from gpunion.agent.replicating import Replicator
from gpunion.agent.run_notes import Notebook
from gpunion.agent.sending import KEEP_CHECKPOINTS
from gpunion.agent.settings import Settings, terms_now
from gpunion.agent.storage import Storage
from gpunion.agent.world import World
from gpunion.domain.events import AgentEvent
from gpunion.domain.guest import Tenure
from gpunion.domain.node import NodeFacts
from gpunion.domain.resources import Capacity
from gpunion.ports.agent_disk import AgentDisk
from gpunion.ports.checkpointer import Checkpointer
from gpunion.ports.clock import BootClock, Clock
from gpunion.ports.coordinator_link import CoordinatorLink, LinkFault
from gpunion.ports.gpus import Gpus
from gpunion.ports.images import ArchiveSource, ImageFault
from gpunion.ports.peers import BlockServing
from gpunion.ports.runtime import ExitReason, Runtime, RuntimeFault
from gpunion.ports.storage import Opened

AGENT_DIR = "agent"
CACHE_DIR = "cache"
IMAGES_DIR = "images"
PROBE_HOME = PROBE_DIR  # where an agent that tries whether it can dump guests keeps a small one
RUNTIME_FILES = (LIST_FILE, PROFILE_NAME)  # the doorman's list of places and Podman's profile
GPU_NUMBERS_FILE = "gpus.json"
PLACES_FILE = "places.json"
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
    images: ImageKeeper | None = None
    checkpointer: Checkpointer | None = None  # where the runtime can dump its guests whole
    parker: GuestParker | None = None  # where guests can be moved off their GPUs into memory


def compose(settings: Settings) -> Parts:
    """RuntimeFault where guests could not be shut in and the owner has not allowed that."""
    gpus = gpus_of(settings)
    runtime = runtime_of(settings, gpus)
    link = HttpLink(settings.coordinator, settings.credential())
    storage, caps = storage_of(settings), Caps()
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
        images=images_of(settings, runtime, link),
        checkpointer=runtime if isinstance(runtime, PodmanRuntime) else None,
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


def images_of(settings: Settings, runtime: Runtime, source: ArchiveSource) -> ImageKeeper | None:
    if not isinstance(runtime, ContainerRuntime):
        return None
    shelf = ImageShelf(runtime.images, settings.state_dir / IMAGES_DIR, settings.image_quota_bytes)
    return ImageKeeper(runtime.images, source, shelf)


def asks_driver(settings: Settings) -> bool:
    """Whether the GPUs lent here are those that NVIDIA's driver shows."""
    asked = settings.gpu_source == "nvml" or (settings.gpu_source == "auto" and not settings.gpus)
    return asked and driver_is_here()


def why_no_park(settings: Settings) -> str:
    """Why no guest can be parked on this machine; empty where its driver can do that. Blocks for seconds."""
    if asks_driver(settings):
        return cannot_move()
    return "its GPUs are only declared" if driver_is_here() else "there is no NVIDIA driver here"


def gpus_of(settings: Settings) -> Gpus:
    """A driver that is there but does not answer keeps nobody from starting: its cards are found later."""
    if asks_driver(settings):
        speeds = {gpu.model: gpu.speed for gpu in settings.gpus}
        return find_gpus(speeds, settings.state_dir / AGENT_DIR / GPU_NUMBERS_FILE)
    return DeclaredGpus(
        () if settings.gpu_source == "nvml" else settings.gpus,
        why="there is no NVIDIA driver here" if settings.gpu_source == "nvml" else "",
    )


def runtime_of(settings: Settings, gpus: Gpus) -> KeptRuntime:
    runtime = _open_runtime(settings, gpus)
    runtime.allow_places(settings.terms.egress)
    return runtime


def _open_runtime(settings: Settings, gpus: Gpus) -> KeptRuntime:
    match settings.runtime:
        case "docker":
            return open_docker(settings.state_dir, image=settings.image)
        case "podman":
            hooks = CudaHooks(gpus.device) if gpus.watched else None
            return open_podman(settings.state_dir, image=settings.image, hooks=hooks)
        case _:
            return SandboxRuntime(
                settings.state_dir,
                allow_unsandboxed=settings.terms.allow_unsandboxed,
                device_of=gpus.device,
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
    )


def block_server(settings: Settings, desk: PeerDesk) -> BlockServing:
    """Where other machines may fetch blocks. OSError: the address is not this machine's, or is taken."""
    return BlockServer(desk, data_host(settings), settings.data_port)


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
        data_address=f"{data_host(settings)}:{settings.data_port}" if settings.data_port else "",
    )


def join(request: JoinRequest) -> Joined:
    """What `gpunion join` calls. JoinTrouble says why not."""
    try:
        return asyncio.run(enrol_join(request, HttpRegistrar(request.url.rstrip("/")), shares))
    except LinkFault as fault:
        raise JoinTrouble(str(fault)) from fault


def can_sandbox() -> bool:
    """Whether guests would be shut in on this machine, as it is and as this user."""
    return isinstance(find_bubblewrap(), Bubblewrap)


def try_runtime(name: str, image: str | None = None) -> TriedRuntime:
    """Whether guests can be run in it on this machine, as this user. Tried, not looked for."""
    try:
        with tempfile.TemporaryDirectory(prefix="gpunion-try-") as folder:
            match name:
                case "docker":
                    opened: Runtime = open_docker(folder, image=image)
                case "podman":
                    opened = open_podman(folder, image=image)
                case _:
                    opened = SandboxRuntime(folder)
            return TriedRuntime(name=name, described=opened.describe())
    except RuntimeFault as fault:
        trouble, _, mend = str(fault).partition("Next: ")
        return TriedRuntime(name=name, trouble=trouble.strip(), mend=mend)
    except OSError as error:
        mend = "make room for temporary files, or say where there is some: export TMPDIR=DIR"
        return TriedRuntime(name=name, trouble=f"it could not be tried: {error.strerror}", mend=mend)


def traces_of(settings: Settings) -> Traces:
    try:
        runtime = _open_runtime(settings, DeclaredGpus(()))
        if not isinstance(runtime, ContainerRuntime):
            return Traces()
        shelf = ImageShelf(runtime.images, settings.state_dir / IMAGES_DIR, settings.image_quota_bytes)
        loaded = tuple(kept.ref for kept in shelf.kept())
        return Traces(containers=runtime.containers(), images=loaded, host_image=runtime.host_image())
    except RuntimeFault as fault:
        return Traces(trouble=str(fault))


def remove_traces(settings: Settings) -> list[str]:
    """End and remove every guest and what was loaded for them; returns what could not be done."""
    try:
        runtime = _open_runtime(settings, DeclaredGpus(()))
        asyncio.run(_remove_guests(runtime))
        cgroups.remove_top()
        if isinstance(runtime, ContainerRuntime):
            for container in runtime.containers():
                runtime.remove_container(container)
            shelf = ImageShelf(runtime.images, settings.state_dir / IMAGES_DIR, settings.image_quota_bytes)
            shelf.clear()
            runtime.remove_host_image()
    except (RuntimeFault, ImageFault) as fault:
        return [str(fault)]
    return []


async def _remove_guests(runtime: Runtime) -> None:
    for guest in await runtime.guests():
        await runtime.kill(guest.run_id, ExitReason.STOPPED)
        await runtime.remove(guest.run_id)


def say_goodbye(coordinator: str, credential: str) -> bool:
    """For an agent that cannot any more; whether the coordinator heard it."""
    try:
        asyncio.run(HttpRegistrar(coordinator).farewell(credential))
    except LinkFault:
        return False
    return True


def fetch(vault: Path, job_id: str, checkpoint_id: str, target: Path) -> None:
    """What a job saved or left as output, out of a directory vault."""
    shelf = DirectoryVault(vault)
    restore_directory(shelf, shelf.get(job_id, checkpoint_id), target)


# What `gpunion vault` asks about a directory or a place, and where its repair takes sound blocks from.
caretaker = partial(open_caretaker, environment=os.environ)
desk_of = partial(open_desk, environment=os.environ)


def _campus_vault(settings: Settings, patience: Patience, mark: str) -> Opened:
    if settings.vault is not None:
        return open_own_bounded(settings.vault, mark, patience)
    desk = HttpVaultDesk(settings.coordinator, settings.credential())
    mirror = settings.state_dir / CACHE_DIR / "vault"
    return Opened(MirrorVault(desk, mirror, limit_bytes=settings.cache_bytes), desk)


def storage_of(settings: Settings) -> Storage:
    patience = Patience()
    return Storage(
        open_campus=partial(_campus_vault, settings, patience),
        open_place=partial(
            open_bounded,
            patience=patience,
            environment=os.environ,
            mirrors=settings.state_dir / CACHE_DIR / "places",
            limit_bytes=settings.cache_bytes,
        ),
        combine=lambda vaults, passed_over: ReplicatedVault(
            [NamedVault(*named) for named in vaults], patience, passed_over
        ),
        memory=settings.state_dir / AGENT_DIR / PLACES_FILE,
        own=settings.places,
    )
