"""Runs guests as processes of this machine, inside bubblewrap where it is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from gpunion.adapters.runtimes.keeper import cgroups, users
from gpunion.adapters.runtimes.keeper.guest_dir import guest_paths
from gpunion.adapters.runtimes.keeper.kept_runtime import LOG_LIMIT_BYTES, KeptRuntime
from gpunion.adapters.runtimes.keeper.streams.entering import environment_of, someone_inside, terminal
from gpunion.adapters.runtimes.keeper.streams.threads import beside
from gpunion.adapters.runtimes.sandbox import launch_plan as confinement
from gpunion.adapters.runtimes.sandbox.bubblewrap import GUEST_ID, Bubblewrap, NoBubblewrap, find_bubblewrap
from gpunion.ports.gpus import GpuDevice
from gpunion.ports.guest_streams import GuestStream, NotReached
from gpunion.ports.runtime import GuestPaths, GuestSpec, RuntimeFault
from gpunion.tunnel.targets import Terminal

DATA_FACTOR, DATA_SPARE_BYTES = 4, 16 * 1024**3
NOT_WANTED = NoBubblewrap(why="it was not asked for", mend="ask for it")


class SandboxRuntime(KeptRuntime):
    """Implements `ports.runtime.Runtime`."""

    keeper_module = "gpunion.adapters.runtimes.sandbox.keeper"

    def __init__(
        self,
        state_dir: str | os.PathLike[str],
        *,
        allow_unsandboxed: bool = False,
        use_bubblewrap: bool = True,
        log_limit_bytes: int = LOG_LIMIT_BYTES,
        processes_max: int = cgroups.PROCESSES_MAX,
        device_of: Callable[[int], GpuDevice | None] = lambda index: None,
    ) -> None:
        """`device_of`: how a GPU is opened, where a driver has seen it."""
        self._bubblewrap = find_bubblewrap() if use_bubblewrap else NOT_WANTED
        if isinstance(self._bubblewrap, NoBubblewrap) and not allow_unsandboxed:
            raise RuntimeFault(
                f"guests could touch this machine: {self._bubblewrap.why}. "
                f"Next: {self._bubblewrap.mend}; or let them come unsandboxed: "
                "gpunion join --allow-unsandboxed, or once it has joined "
                "gpunion terms set allow_unsandboxed=true.",
                temporary=False,
            )
        super().__init__(state_dir)
        self.sandboxed = isinstance(self._bubblewrap, Bubblewrap)
        self._log_limit_bytes = log_limit_bytes
        self._processes_max = processes_max
        self._device_of = device_of
        self._cgroup_parent, self._controllers = cgroups.survey()

    @property
    def name(self) -> str:
        return "bubblewrap" if self.sandboxed else "process"

    @property
    def unenforced(self) -> tuple[str, ...]:
        return () if "cpu" in self._controllers else ("cpu",)

    def describe(self) -> str:
        shut_in = f"bubblewrap sandbox {self._network_described()}"
        kind = shut_in if self.sandboxed else "unsandboxed process"
        group = "own cgroup" if self._cgroup_parent else "no cgroup"
        memory = "the kernel" if "memory" in self._controllers else "its keeper"
        limits = f"memory limit enforced by {memory}, disk limit by its keeper"
        if self.unenforced:
            limits += ", cpu limit recorded but not enforced"
        return f"{kind}, {group}, {limits}"

    async def _terminal(self, root: Path, place: Terminal) -> GuestStream:
        if not self.sandboxed:
            raise NotReached("nothing shuts guests in there: a shell in one would be a shell of its owner's")
        inside = await beside(partial(someone_inside, root))
        return await terminal(
            place,
            guest_dir=root,
            pid=inside,
            user=GUEST_ID,
            directory=str(guest_paths(confinement.INSIDE).work_dir),
            environment=await beside(partial(environment_of, inside)),
        )

    def _launch(self, spec: GuestSpec, paths: GuestPaths) -> dict[str, object]:
        self._check_network(spec)
        if spec.image is not None:
            raise RuntimeFault(
                f"there are no images in a sandbox, and it asks for {spec.image}", temporary=False
            )
        found = (self._device_of(index) for index in spec.gpu_indices)
        devices = tuple(device for device in found if device is not None)
        user = 0
        if isinstance(self._bubblewrap, Bubblewrap):
            plan = confinement.plan_sandboxed(spec, paths, self._state_dir, self._bubblewrap, devices)
            if self._bubblewrap.own_user:
                user = self._users.claim(paths.root)
                users.hand_over_all(paths, user)
        else:
            plan = confinement.plan_plain(spec, paths, devices)
        return asdict(plan) | {
            "user": user,
            "cgroup_parent": self._cgroup_parent,
            "memory_bytes": spec.memory_bytes,
            "watched_memory_bytes": 0 if "memory" in self._controllers else spec.memory_bytes,
            "data_bytes": 0 if spec.gpu_indices else _data_bytes(spec.memory_bytes),
            "disk_bytes": spec.disk_bytes,
            "network": spec.network and self.sandboxed,
            "cpus": spec.cpus,
            "log_limit_bytes": self._log_limit_bytes,
            "processes_max": self._processes_max,
        }


def _data_bytes(memory_bytes: int) -> int:
    """The most one process may map for itself, where its keeper limits memory a little late.

    Well above what programs map without using it (a stack for every thread, room for a library's buffers).
    A program with a GPU maps far more than it will ever use, and gets no such limit.
    """
    return DATA_FACTOR * memory_bytes + DATA_SPARE_BYTES if memory_bytes else 0
