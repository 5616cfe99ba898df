"""Runs each guest in a container of its own, with a keeper that outlives the agent."""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import secrets
from dataclasses import dataclass, replace
from pathlib import Path

from gpunion.adapters.containers.engine import Engine, EngineTrouble, client_environment
from gpunion.adapters.containers.entry import DOORS_DIR, ENTER, GATE, OUTPUT, entry_script
from gpunion.adapters.containers.gpus import GpuWay
from gpunion.adapters.containers.hostimage import HOST_IMAGE, ensure_host_image, host_places, image_is_here
from gpunion.adapters.containers.images import EngineImages
from gpunion.adapters.containers.request import RUN_LABEL, Confines, Request, create_words, library_place
from gpunion.adapters.sandbox import stage
from gpunion.adapters.sandbox.confinement import INSIDE, PACKAGE_DIR, guest_environment, package_places
from gpunion.adapters.sandbox.kept import LOG_LIMIT_BYTES, KeptRuntime
from gpunion.adapters.sandbox.layout import guest_paths
from gpunion.adapters.sandbox.names import WORK_DIR
from gpunion.domain.image import pinned
from gpunion.owner_kill.guest import GUESTS_DIR
from gpunion.ports.images import ImageFault
from gpunion.ports.runtime import GuestPaths, GuestSpec, RuntimeFault

OPEN_FILES_MAX = 65_536  # enough for any training job
PROCESSES_MAX = 8192  # a data loader has dozens, a fork bomb has no end
NAME_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestUser:
    """Who a guest is: inside its container, and to the host."""

    inside: str = ""  # "uid:gid"
    words: tuple[str, ...] = ()  # the engine's words for how the one becomes the other
    host_id: int | None = None  # who has to own its directories; None: whoever made them
    own: bool = False  # each guest is another one, on both sides; see `sandbox.users`
    described: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What an engine can do on this machine, found by asking it."""

    version: str
    user: GuestUser
    gpus: GpuWay
    unenforced: tuple[str, ...] = ()  # limits that this machine gives the engine no means for
    more_words: tuple[str, ...] = ()  # what this engine needs to shut a guest in as tightly as the others


class ContainerRuntime(KeptRuntime):
    """Implements `ports.runtime.Runtime`. Without an image guests see this machine's own programs."""

    keeper_module = "gpunion.adapters.containers.keeper"
    sandboxed = True
    more_homes: tuple[str, ...] = ()  # folders of the state directory that have guests of their own

    def __init__(
        self,
        state_dir: str | os.PathLike[str],
        engine: Engine,
        facts: EngineFacts,
        *,
        image: str | None = None,
        log_limit_bytes: int = LOG_LIMIT_BYTES,
        processes_max: int = PROCESSES_MAX,
    ) -> None:
        super().__init__(state_dir)
        self._engine = engine
        self._facts = facts
        self._image = image
        self.images = EngineImages(engine)
        self._log_limit_bytes = log_limit_bytes
        self._confines = Confines(
            engine_words=(*facts.user.words, *facts.more_words),
            gpus=facts.gpus,
            cpus_max=float(os.cpu_count() or 1),
            open_files_max=_allowed(resource.RLIMIT_NOFILE, OPEN_FILES_MAX),
            processes_max=_allowed(resource.RLIMIT_NPROC, processes_max),
        )

    @property
    def name(self) -> str:
        return self._engine.name

    @property
    def unenforced(self) -> tuple[str, ...]:
        """Memory is then its keeper's to hold it to, and processes are counted for the user it is."""
        return tuple(limit for limit in self._facts.unenforced if limit not in ("memory", "process"))

    def describe(self) -> str:
        image = self._image or "this machine's programs, read-only"
        return (
            f"{self._engine.name} {self._facts.version} container {self._network_described()} ({image}), "
            f"{self._facts.user.described}, {self._limits_described()}, "
            f"GPUs: {self._facts.gpus.value}"
        )

    def _limits_described(self) -> str:
        if not self._facts.unenforced:
            return "memory, cpu, process and disk limits enforced"
        memory = "its keeper" if "memory" in self._facts.unenforced else "the kernel"
        limits = f"memory limit enforced by {memory}, disk limit by its keeper"
        if "process" in self._facts.unenforced:
            limits += ", processes counted together with others of its user"
        return limits + "".join(f", {limit} limit recorded but not enforced" for limit in self.unenforced)

    def _keeper_environment(self) -> dict[str, str]:
        return client_environment() | super()._keeper_environment()

    def _launch(self, spec: GuestSpec, paths: GuestPaths) -> dict[str, object]:
        self._check_network(spec)
        request = self._request(spec, paths)
        if spec.gpu_indices and self._facts.gpus is GpuWay.DECLARED and os.path.exists("/dev/nvidiactl"):
            raise RuntimeFault(
                f"{self._engine.name} cannot pass GPUs here: NVIDIA's container toolkit has not been set up. "
                "Next: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
                temporary=False,
            )
        user = self._user_of(paths)
        self._make_doors(spec, paths, user.host_id)
        if user.host_id is not None:
            stage.hand_over_all(paths, user.host_id)
        return {
            "engine": self._engine.record(),
            "container": request.name,
            "create": create_words(spec, paths, request, self._confines, user.inside),
            "log_limit_bytes": self._log_limit_bytes,
            "memory_bytes": spec.memory_bytes,
            "cpus": min(spec.cpus, self._confines.cpus_max),
            "watched_memory_bytes": spec.memory_bytes if "memory" in self._facts.unenforced else 0,
            "disk_bytes": spec.disk_bytes,
            "network": spec.network,
        }

    def _request(self, spec: GuestSpec, paths: GuestPaths) -> Request:
        name = container_name(spec.run_id, paths.root)
        library = library_place(PACKAGE_DIR)
        try:
            if spec.image is not None:
                return Request(name=name, image=self._verified(spec.image), readable=(library,))
            if self._image is None:
                ensure_host_image(self._engine)
                readable = (*host_places(paths.root), library, *package_places(spec))
                inside_those = any(self._state_dir.is_relative_to(source) for source, _ in readable)
                hidden = (self._state_dir,) if inside_those else ()
                return Request(name=name, image=HOST_IMAGE, readable=readable, hidden=hidden)
            if not image_is_here(self._engine, self._image):
                raise RuntimeFault(
                    f"the image {self._image} is not on this machine. "
                    f"Next: {self._engine.name} pull {self._image}",
                    temporary=False,
                )
        except EngineTrouble as trouble:
            raise RuntimeFault(f"{self._engine.name}: {trouble}", temporary=True) from trouble
        return Request(name=name, image=self._image, readable=(library,))

    def _verified(self, image: str) -> str:
        """The engine's id of exactly this image: a container is made of that, and of no name."""
        try:
            found = self.images.find(pinned(image))
        except (ImageFault, ValueError) as fault:
            raise RuntimeFault(str(fault), temporary=isinstance(fault, ImageFault)) from fault
        if found is None:
            raise RuntimeFault(
                f"{self._engine.name} does not have {image}, whatever it calls by that name", temporary=False
            )
        return found

    def _user_of(self, paths: GuestPaths) -> GuestUser:
        if not self._facts.user.own:
            return self._facts.user
        user = self._users.claim(paths.root)
        return replace(self._facts.user, inside=f"{user}:{user}", host_id=user)

    def _make_doors(self, spec: GuestSpec, paths: GuestPaths, host_id: int | None) -> None:
        """The gate, the pipe for the output and the first program; see `entry`. Starts may race for a run."""
        doors = paths.root / DOORS_DIR
        doors.mkdir(mode=0o700, exist_ok=True)
        inside = guest_paths(INSIDE)
        environment = guest_environment(spec, inside, str(INSIDE / "lib"), sandboxed=True)
        if (spec.image or self._image) is not None:
            environment["PATH"] = spec.environment.get("PATH", "")
        script = entry_script(environment, INSIDE / DOORS_DIR, inside.scratch_dir / WORK_DIR)
        unfinished = doors / f".{ENTER}-{secrets.token_hex(8)}"
        unfinished.touch(mode=0o600)
        unfinished.write_text(script, encoding="utf-8")
        for pipe in (GATE, OUTPUT):
            with contextlib.suppress(FileExistsError):
                os.mkfifo(doors / pipe, 0o600)
        if host_id is not None:
            for path in (doors, unfinished, doors / GATE, doors / OUTPUT):
                os.chown(path, host_id, host_id)
        unfinished.rename(doors / ENTER)

    def containers(self) -> tuple[str, ...]:
        """Those of guests of this state directory that the engine has, whatever became of their guests."""
        words = ("ps", "--all", "--filter", f"label={RUN_LABEL}", "--format", "{{.Names}}")
        try:
            named = self._engine.call(*words).split()
        except EngineTrouble as trouble:
            raise RuntimeFault(f"{self._engine.name}: {trouble}", temporary=True) from trouble
        return tuple(name for name in named if self._root_of(name) is not None)

    def remove_container(self, name: str) -> None:
        root = self._root_of(name)
        if root is not None:
            self._discard(root.name, root)

    def _root_of(self, name: str) -> Path | None:
        """The guest's directory that a container's name stands for; None where it is of no guest of ours."""
        run = run_of(name)
        roots = (self._state_dir / home / GUESTS_DIR / run for home in ("", *self.more_homes))
        return next((root for root in roots if container_name(run, root) == name), None)

    def host_image(self) -> str:
        """The image for guests that chose none; "" where it is not on this machine."""
        try:
            return HOST_IMAGE if image_is_here(self._engine, HOST_IMAGE) else ""
        except EngineTrouble:
            return ""

    def remove_host_image(self) -> None:
        """Not from under another agent's guests: without force the engine keeps what a container uses."""
        with contextlib.suppress(EngineTrouble):
            self._engine.call("image", "rm", HOST_IMAGE)

    def _discard(self, run_id: str, root: Path) -> None:
        try:
            self._engine.remove(container_name(run_id, root))
        except EngineTrouble as trouble:
            raise RuntimeFault(f"cannot remove {run_id}: {trouble}", temporary=True) from trouble


def container_name(run_id: str, root: Path) -> str:
    """Known before there is a container, and different for every state directory on a machine."""
    return f"gpunion-{hashlib.sha256(str(root).encode()).hexdigest()[:NAME_DIGITS]}-{run_id}"


def run_of(container: str) -> str:
    """The run in a container's name."""
    return "-".join(container.split("-")[2:])


def _allowed(kind: int, wanted: int) -> int:
    _, hard = resource.getrlimit(kind)
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
