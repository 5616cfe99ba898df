"""Guests in Podman containers that can be dumped whole and brought back elsewhere.

Implements `ports.checkpointer.Checkpointer` beside `Runtime`. A guest stands still only while this object
says so: whoever renews its limits after a crash in the middle finds it frozen and lets it go on.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import threading
from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpunion.adapters.runtimes.containers.entry import DOORS_DIR, ENTER
from gpunion.adapters.runtimes.containers.freezer import Freezer, freezer_of
from gpunion.adapters.runtimes.containers.gpus import GpuWay
from gpunion.adapters.runtimes.containers.runtime import ContainerRuntime
from gpunion.adapters.runtimes.keeper import guest_dir as layout
from gpunion.adapters.runtimes.keeper.names import GUEST_FILE, LAUNCH_FILE, PARKED_FILE
from gpunion.adapters.runtimes.podman import bind_mounts as staging
from gpunion.adapters.runtimes.podman import extra_memory as room
from gpunion.adapters.runtimes.podman import probing
from gpunion.adapters.runtimes.podman.criu_options import with_settings
from gpunion.adapters.runtimes.podman.dumping import ENTER_FILE, RECIPE_FILE, dump_container
from gpunion.adapters.runtimes.podman.restore_requirements import Recipe, recipe_of, unfit
from gpunion.adapters.runtimes.podman.users import FIRST_HOST_ID, MAP_WORDS, MAPPED_IDS
from gpunion.domain.system_tier import SystemAbility
from gpunion.files import read_json
from gpunion.owner_kill.guest import lives, read_keeper
from gpunion.owner_kill.processes import cgroup_pids
from gpunion.ports.checkpointer import DumpHooks, DumpRefused, RestoreRefused
from gpunion.ports.runtime import ExitReason, GuestPaths, GuestSpec, GuestStatus, RuntimeFault

# Reading the images back takes as long as the disk needs; the coordinator waits ten minutes for a start.
RESTORE_LIMIT_S = 240.0
CALLS_LIMIT_S = 60.0  # for all that Podman does around it


class NoDevices:
    """The hooks of a machine whose guests hold no GPU that a driver would have to empty first."""

    def __init__(self, way: GpuWay) -> None:
        self._way = way

    def covers(self, gpu_indices: Sequence[int]) -> str:
        if gpu_indices and self._way is not GpuWay.DECLARED:
            return "what a guest has on its GPUs cannot be dumped here yet"
        return ""

    def before_dump(self, pids: Sequence[int], limit_s: float) -> None:
        return

    def after_dump(self, pids: Sequence[int]) -> None:
        return

    def after_restore(self, pids: Sequence[int]) -> None:
        return


class PodmanRuntime(ContainerRuntime):
    keeper_module = "gpunion.adapters.runtimes.podman.keeper"
    more_homes = (probing.PROBE_DIR,)

    def __init__(self, *arguments: Any, hooks: DumpHooks | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.hooks: DumpHooks = hooks or NoDevices(self._facts.gpus)
        self.remembers_in = probing.MEMORY_DIR
        self._dumps: dict[str, Path] = {}  # of runs that are being brought back
        self._still: dict[str, tuple[Freezer, tuple[int, ...]]] = {}  # runs that this object holds
        self._waking = threading.Lock()

    async def ability(self) -> SystemAbility:
        why_not = await asyncio.to_thread(probing.no_means)
        if why_not:
            return SystemAbility(why_not=why_not)
        host_programs = self._image is None
        kind = await asyncio.to_thread(
            probing.kind_of_machine, self._facts.version, host_programs=host_programs
        )
        known = probing.remembered(self.remembers_in, kind)
        if known is not None:
            return known
        home = self._state_dir / probing.PROBE_DIR
        small = PodmanRuntime(home, self._engine, self._facts, image=self._image)
        ability = await probing.try_it(small, home, kind)
        probing.remember(self.remembers_in, ability)
        return ability

    async def dump(self, run_id: str, into: Path, *, limit_s: float, parked: bool = False) -> None:
        await asyncio.to_thread(self._dump, run_id, into, limit_s, parked)

    async def release(self, run_id: str) -> None:
        freezer, pids = self._still.pop(run_id, (None, ()))
        if freezer is not None:
            await asyncio.to_thread(freezer.thaw)
            await asyncio.to_thread(self.hooks.after_dump, pids)

    async def restore(self, spec: GuestSpec, dump: Path) -> None:
        self._dumps[spec.run_id] = dump
        try:
            await self.start(spec)
            await asyncio.to_thread(self.hooks.after_restore, self._pids(spec.run_id))
        except (RuntimeFault, RestoreRefused) as trouble:
            # Also one that came back too late, or that its devices did not take back.
            await self.kill(spec.run_id, ExitReason.STOPPED)
            raise RestoreRefused(str(trouble)) from trouble
        finally:
            self._dumps.pop(spec.run_id, None)

    async def kill(self, run_id: str, reason: ExitReason) -> GuestStatus | None:
        status = await super().kill(run_id, reason)
        self._still.pop(run_id, None)
        return status

    async def limit(self, run_id: str, lease_until_s: float | None, kill_at_s: float | None) -> None:
        await super().limit(run_id, lease_until_s, kill_at_s)
        await asyncio.to_thread(self._wake_forgotten, run_id)

    async def guests(self) -> tuple[GuestStatus, ...]:
        found = await super().guests()
        for guest in found:
            if guest.alive:
                await asyncio.to_thread(self._wake_forgotten, guest.run_id)
        return found

    def _dump(self, run_id: str, into: Path, limit_s: float, parked: bool) -> None:
        root = layout.guest_root(self._state_dir, run_id)
        launch = read_json(str(root / LAUNCH_FILE))
        if launch is None or not lives(str(root)):
            raise DumpRefused("there is no guest that lives")
        recipe = recipe_of(self._words(launch), self._facts.user, _gpus_of(root))
        recipe = replace(recipe, extra_bytes=room.extra_of(root))
        uncovered = self.hooks.covers(recipe.gpu_indices)
        if uncovered:
            raise DumpRefused(uncovered)
        pids = self._pids(run_id)
        freezer = freezer_of(pids[0]) if pids else None
        if freezer is None:
            raise DumpRefused("the guest has no cgroup of its own that could be frozen")
        container = str(launch["container"])
        if parked:
            if not freezer.frozen():
                raise DumpRefused("it was said to be parked, and does not stand still")
            dump_container(self._engine, container, set(pids), into, limit_s, parked=True)
            _add_recipe(into, recipe, root)
            return
        self.hooks.before_dump(pids, limit_s)
        with self._waking:
            self._still[run_id] = (freezer, pids)  # from here on nobody else may wake it
        try:
            dump_container(self._engine, container, set(pids), into, limit_s)
            _add_recipe(into, recipe, root)
        except BaseException:
            self._still.pop(run_id, None)
            freezer.thaw()
            self.hooks.after_dump(pids)
            raise

    def _launch(self, spec: GuestSpec, paths: GuestPaths) -> dict[str, object]:
        launch = super()._launch(spec, paths)
        dump = self._dumps.get(spec.run_id)
        if dump is None:
            return launch
        why_not = self._unfit(spec, dump, self._words(launch))
        if why_not:
            raise RestoreRefused(why_not)
        enter = paths.root / DOORS_DIR / ENTER
        enter.write_bytes((dump / ENTER_FILE).read_bytes())  # in place: its owner stays the guest's user
        stage = staging.stage_of(str(paths.root))
        extra_bytes = self._recipe(dump).extra_bytes
        room.grant(paths.root, extra_bytes)
        create, sources = staging.restaged(room.widened(self._words(launch), extra_bytes), stage)
        host_id = self._facts.user.host_id
        restore = {
            "dump": str(dump),
            "stage": stage,
            "sources": sources,
            "host_id": os.geteuid() if host_id is None else host_id,
            "root_id": FIRST_HOST_ID if self._facts.user.words == MAP_WORDS else os.geteuid(),
            "limit_s": RESTORE_LIMIT_S,
        }
        return launch | {"create": with_settings(create, str(paths.root)), "restore": restore}

    def _unfit(self, spec: GuestSpec, dump: Path, words: list[str]) -> str:
        try:
            recipe = self._recipe(dump)
        except (OSError, ValueError) as error:
            return f"the dump has no recipe that can be read: {error}"
        odd = next((path for path in dump.rglob("*") if not _plain(path)), None)
        if odd is not None:
            return f"{odd.name[:80]!r} in the dump is neither a file nor a directory"
        here = recipe_of(words, self._facts.user, spec.gpu_indices)
        uncovered = unfit(recipe, here) or self.hooks.covers(spec.gpu_indices)
        return uncovered or room.why_not(recipe.extra_bytes)

    def _start_limit_s(self, run_id: str) -> float:
        restores = run_id in self._dumps
        return RESTORE_LIMIT_S + CALLS_LIMIT_S if restores else super()._start_limit_s(run_id)

    def _discard(self, run_id: str, root: Path) -> None:
        super()._discard(run_id, root)
        staging.clear(staging.stage_of(str(root)))

    def _guest_ids(self) -> Container[int] | None:
        """Who listens in a guest that was brought back is, for the kernel, the root of its namespace."""
        if self._facts.user.words != MAP_WORDS:
            return None
        return range(FIRST_HOST_ID, FIRST_HOST_ID + MAPPED_IDS)

    def _pids(self, run_id: str) -> tuple[int, ...]:
        keeper = read_keeper(str(layout.guest_root(self._state_dir, run_id)))
        return () if keeper is None else tuple(sorted(cgroup_pids(keeper.cgroup)))

    def _wake_forgotten(self, run_id: str) -> None:
        if (layout.guest_root(self._state_dir, run_id) / PARKED_FILE).exists():
            return  # whoever parked it has not forgotten it
        pids = self._pids(run_id) if run_id not in self._still else ()
        freezer = freezer_of(pids[0]) if pids else None
        with self._waking:
            if freezer is not None and run_id not in self._still and freezer.held():
                freezer.thaw()

    @staticmethod
    def _recipe(dump: Path) -> Recipe:
        return Recipe.from_json((dump / RECIPE_FILE).read_text(encoding="utf-8"))

    @staticmethod
    def _words(launch: dict[str, object]) -> list[str]:
        words = launch["create"]
        return [str(word) for word in words] if isinstance(words, list) else []


def _add_recipe(into: Path, recipe: Recipe, root: Path) -> None:
    (into / RECIPE_FILE).write_text(recipe.to_json(), encoding="utf-8")
    # CRIU wants the shell's script as it was; it names the first run's variables.
    shutil.copyfile(root / DOORS_DIR / ENTER, into / ENTER_FILE)


def _gpus_of(root: Path) -> tuple[int, ...]:
    granted = (read_json(str(root / GUEST_FILE)) or {}).get("gpu_indices")
    return tuple(int(index) for index in granted) if isinstance(granted, list) else ()


def _plain(path: Path) -> bool:
    """A link would be followed by somebody who is root."""
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
