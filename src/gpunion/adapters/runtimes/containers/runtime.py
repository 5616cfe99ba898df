"""Runs each guest in a container of its own, with a keeper that outlives the agent."""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import secrets
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from gpunion.adapters.runtimes.containers.container_command import Engine, EngineTrouble, client_environment
from gpunion.adapters.runtimes.containers.entry import DOORS_DIR, ENTER, GATE, OUTPUT, entry_script
from gpunion.adapters.runtimes.containers.gpus import GpuWay
from gpunion.adapters.runtimes.containers.guest_user import GuestUser, as_image_says, ids_in_image
from gpunion.adapters.runtimes.containers.host_image import (
    HOST_IMAGE,
    ensure_host_image,
    host_places,
    image_is_here,
)
from gpunion.adapters.runtimes.containers.images import EngineImages
from gpunion.adapters.runtimes.containers.request import (
    RUN_LABEL,
    Confines,
    Request,
    create_words,
    library_place,
)
from gpunion.adapters.runtimes.keeper import users
from gpunion.adapters.runtimes.keeper.guest_dir import PACKAGE_DIR, guest_paths
from gpunion.adapters.runtimes.keeper.kept_runtime import LOG_LIMIT_BYTES, KeptRuntime
from gpunion.adapters.runtimes.keeper.streams.entering import environment_of, someone_inside, terminal
from gpunion.adapters.runtimes.keeper.streams.threads import beside
from gpunion.adapters.runtimes.sandbox.launch_plan import (
    INSIDE,
    guest_environment,
    package_places,
    usual_variables,
)
from gpunion.domain.image import pinned
from gpunion.domain.image_settings import ImageSettings
from gpunion.owner_kill.guest import GUESTS_DIR
from gpunion.ports.guest_streams import GuestStream
from gpunion.ports.images import ImageFault
from gpunion.ports.runtime import GuestPaths, GuestSpec, RuntimeFault
from gpunion.tunnel.targets import Terminal

OPEN_FILES_MAX = 65_536  # enough for any training job
PROCESSES_MAX = 8192  # a data loader has dozens, a fork bomb has no end
NAME_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What an engine can do on this machine, found by asking it."""

    version: str
    user: GuestUser
    gpus: GpuWay
    unenforced: tuple[str, ...] = ()  # limits that this machine gives the engine no means for
    more_words: tuple[str, ...] = ()  # what this engine needs to shut a guest in as tightly as the others


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """The image of one guest."""

    image: str
    settings: ImageSettings = field(default_factory=ImageSettings)
    readable: tuple[tuple[Path, Path], ...] = ()
    hidden: tuple[Path, ...] = ()


class ContainerRuntime(KeptRuntime):
    """Implements `ports.runtime.Runtime`. Without an image guests see this machine's own programs."""

    keeper_module = "gpunion.adapters.runtimes.containers.keeper"
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

    async def _terminal(self, root: Path, place: Terminal) -> GuestStream:
        """By the engine's own command, with its profile for system calls. What the guest's program was given
        goes by the client's environment: a list of processes shows every word."""
        inside = await beside(partial(someone_inside, root))
        found = await beside(partial(environment_of, inside))
        given = {name: found[name] for name in sorted(found) if name not in client_environment()}
        names = [word for name in (*given, "TERM") for word in ("--env", name)]
        container = container_name(root.name, root)
        work = str(guest_paths(INSIDE).work_dir)
        begin = [
            *self._engine.program,
            "exec",
            "--interactive",
            "--tty",
            *names,
            "--workdir",
            work,
        ]
        shell = "command -v bash > /dev/null 2>&1 && exec bash -i; exec sh -i"
        return await terminal(
            place,
            commands=[[*begin, container, "/bin/sh", "-c", shell]],
            environment={**given, **client_environment()},
        )

    def _launch(self, spec: GuestSpec, paths: GuestPaths) -> dict[str, object]:
        self._check_network(spec)
        chosen = self._chosen(spec, paths)
        request = self._request(spec, paths, chosen)
        if spec.gpu_indices and self._facts.gpus is GpuWay.DECLARED and os.path.exists("/dev/nvidiactl"):
            raise RuntimeFault(
                f"{self._engine.name} cannot pass GPUs here: NVIDIA's container toolkit has not been set up. "
                "Next: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
                temporary=False,
            )
        user = self._user_of(paths, request, chosen.settings)
        self._make_doors(spec, paths, user.host_id, _directory(spec, chosen.settings))
        if user.host_id is not None:
            users.hand_over_all(paths, user.host_id)
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

    def _request(self, spec: GuestSpec, paths: GuestPaths, chosen: _Chosen) -> Request:
        program = spec.argv
        if spec.image is not None:
            program = chosen.settings.program(spec.entrypoint, spec.command)
            if not program:
                raise RuntimeFault(
                    f"nothing is to be run: the job has no command, and {spec.image} has neither ENTRYPOINT "
                    "nor CMD. Next: write a command after --",
                    temporary=False,
                )
            program = (*spec.wrapper, *program)
        return Request(
            name=container_name(spec.run_id, paths.root),
            image=chosen.image,
            readable=(*chosen.readable, library_place(PACKAGE_DIR)),
            hidden=chosen.hidden,
            program=program,
        )

    def _chosen(self, spec: GuestSpec, paths: GuestPaths) -> _Chosen:
        try:
            if spec.image is not None:
                image = self._verified(spec.image)
                return _Chosen(image=image, settings=self._settings(image))
            if self._image is None:
                ensure_host_image(self._engine)
                readable = (*host_places(paths.root), *package_places(spec))
                inside_those = any(self._state_dir.is_relative_to(source) for source, _ in readable)
                hidden = (self._state_dir,) if inside_those else ()
                return _Chosen(image=HOST_IMAGE, readable=readable, hidden=hidden)
            if not image_is_here(self._engine, self._image):
                raise RuntimeFault(
                    f"the image {self._image} is not on this machine. "
                    f"Next: {self._engine.name} pull {self._image}",
                    temporary=False,
                )
        except EngineTrouble as trouble:
            raise RuntimeFault(f"{self._engine.name}: {trouble}", temporary=True) from trouble
        return _Chosen(image=self._image)

    def _settings(self, image: str) -> ImageSettings:
        try:
            return self.images.settings(image)
        except ImageFault as fault:
            raise RuntimeFault(str(fault), temporary=True) from fault

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

    def _user_of(self, paths: GuestPaths, request: Request, settings: ImageSettings) -> GuestUser:
        user = self._facts.user
        try:
            ids = ids_in_image(self._engine, request.image, settings.user, f"{request.name}-users")
        except EngineTrouble as trouble:
            raise RuntimeFault(f"{self._engine.name}: {trouble}", temporary=True) from trouble
        if ids is not None:
            said = settings.user if settings.user.isdecimal() else f"{settings.user} ({ids.user})"
            return as_image_says(user, ids, said, lambda wanted: self._users.claim(paths.root, wanted))
        if not user.own:
            return user
        own = self._users.claim(paths.root)
        return replace(user, inside=f"{own}:{own}", host_id=own)

    def _make_doors(self, spec: GuestSpec, paths: GuestPaths, host_id: int | None, directory: Path) -> None:
        """The gate, the pipe for the output and the first program; see `entry`. Starts may race for a run."""
        doors = paths.root / DOORS_DIR
        doors.mkdir(mode=0o700, exist_ok=True)
        inside = guest_paths(INSIDE)
        environment = guest_environment(spec, inside, str(INSIDE / "lib"), sandboxed=True)
        if (spec.image or self._image) is not None:
            environment["PATH"] = spec.environment.get("PATH", "")
        usual = usual_variables(spec).keys() - spec.environment.keys()
        script = entry_script(environment, INSIDE / DOORS_DIR, directory, usual)
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


def _directory(spec: GuestSpec, settings: ImageSettings) -> Path:
    """A command begins beside what travelled with it; what the image brings begins where the image says."""
    if settings.directory and not spec.begins_in_work:
        return Path("/", settings.directory)
    return guest_paths(INSIDE).work_dir


def container_name(run_id: str, root: Path) -> str:
    """Known before there is a container, and different for every state directory on a machine."""
    return f"gpunion-{hashlib.sha256(str(root).encode()).hexdigest()[:NAME_DIGITS]}-{run_id}"


def run_of(container: str) -> str:
    """The run in a container's name."""
    return "-".join(container.split("-")[2:])


def _allowed(kind: int, wanted: int) -> int:
    _, hard = resource.getrlimit(kind)
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
