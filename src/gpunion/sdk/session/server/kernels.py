"""The kernels of this server, as the guest's program asks for them: saved, brought back, how long idle."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpunion.sdk.session.server import notebooks_file
from gpunion.sdk.session.server.kernel_line import KernelLine, NoAnswer, Refused
from gpunion.sdk.session.server.notebooks_file import Kernel, Notebook
from gpunion.sdk.session.server.watch import Watch
from gpunion.sdk.session.variables import in_kernel
from gpunion.sdk.session.variables.snapshot import (
    ABOUT_MAX_BYTES,
    ALL,
    LOADED_FILE,
    Lacking,
    in_words,
    read_about,
    stand_in,
)

KERNELS_FOLDER = "kernels"
READY_LIMIT_S = 60.0
# Cells that the page sends meanwhile wait behind the loading: the server need not.
LOAD_FIRST_S = 15.0
LOAD_LIMIT_S = 3600.0
BUSY_LOOK_S = 0.1
IN_TURN_SHARE = 0.7
# Of what is waited for a kernel: what it saved in its time counts only if it can still say so.
KERNEL_SHARE = 0.8
STILL_LOADING = "they are being read back since the move before, which takes long"
NOT_PYTHON = "only kernels of ipykernel are saved"
LACKING_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveOrder:
    """`wait_s`: how long a cell may go on until the variables are taken beside it."""

    into: Path
    older: Path | None
    wait_s: float
    limit_s: float


class Kernels:
    def __init__(self, app: Any) -> None:
        self._app = app
        self._manager = app.kernel_manager
        self._lacking: dict[str, list[Lacking]] = {}  # of those brought back, by kernel
        self._unsaved: dict[str, list[Lacking]] = {}
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._watches: dict[str, Watch] = {}
        self.came_back = False

    # --- saving ----------------------------------------------------------------------------------

    async def save(self, order: SaveOrder) -> None:
        kernels = await self._living()
        await asyncio.gather(*(self._save_one(kernel, order) for kernel in kernels))
        notebooks_file.write(order.into, kernels)
        self._unsaved = {kernel.id: self._unsaved.get(kernel.id, []) for kernel in kernels}

    async def _save_one(self, kernel: Kernel, order: SaveOrder) -> None:
        folder = order.into / KERNELS_FOLDER / kernel.id
        older = None if order.older is None else order.older / KERNELS_FOLDER / kernel.id
        # Where a kernel writes that was given up, and comes to it after all, nothing is read.
        tries = [folder.with_name(f".{kernel.id}-{number}") for number in (1, 2)]
        try:
            if kernel.id in self._loading:
                raise NoAnswer(STILL_LOADING)
            for place in tries:
                place.mkdir(parents=True)
            (await self._saved(kernel, tries, older, order)).rename(folder)
        except (NoAnswer, Refused, OSError) as trouble:
            if not _so_far(tries, folder):
                said = await asyncio.to_thread(stand_in, older, folder, in_words(trouble))
                self._unsaved[kernel.id] = [Lacking(ALL, said)]
                return
        finally:
            for place in tries:
                shutil.rmtree(place, ignore_errors=True)
        about = read_about(folder)
        self._unsaved[kernel.id] = [] if about is None else list(about.unsaved)

    async def _saved(self, kernel: Kernel, tries: list[Path], older: Path | None, order: SaveOrder) -> Path:
        """Which of the two folders has them."""
        managed = self._manager.get_kernel(kernel.id)
        if not _is_python(managed):
            raise Refused(NOT_PYTHON)
        until_s = time.monotonic() + order.limit_s
        async with KernelLine(managed) as line:
            if await self._idle(kernel.id, order.wait_s):
                # A cell may have begun meanwhile: then some time is left to ask beside it.
                first_s = (until_s - time.monotonic()) * IN_TURN_SHARE
                with contextlib.suppress(NoAnswer):
                    await line.run(_save_line(tries[0], older, KERNEL_SHARE * first_s), first_s)
                    return tries[0]
            left_s = until_s - time.monotonic()
            words = _save_line(tries[1], older, KERNEL_SHARE * left_s, beside=True)
            await line.run_beside(words, left_s)
            return tries[1]

    async def _idle(self, kernel_id: str, limit_s: float) -> bool:
        until_s = time.monotonic() + limit_s
        while self._watch(kernel_id).busy:
            if time.monotonic() >= until_s:
                return False
            await asyncio.sleep(BUSY_LOOK_S)
        return True

    async def _living(self) -> tuple[Kernel, ...]:
        notebooks: dict[str, list[Notebook]] = {}
        for one in await self._app.session_manager.list_sessions():
            opened = Notebook(id=one["id"], path=one["path"], name=one["name"], type=one["type"])
            notebooks.setdefault(one["kernel"]["id"], []).append(opened)
        return tuple(
            Kernel(id=one["id"], kind=one["name"], notebooks=tuple(notebooks.get(one["id"], ())))
            for one in self._manager.list_kernels()
        )

    # --- back ------------------------------------------------------------------------------------

    async def bring_back(self, folder: Path) -> None:
        kernels = notebooks_file.read(folder)
        await asyncio.gather(*(self._carefully(kernel, folder) for kernel in kernels))
        self.came_back = True

    async def _carefully(self, kernel: Kernel, folder: Path) -> None:
        try:
            await self._bring_back_one(kernel, folder / KERNELS_FOLDER / kernel.id)
        except Exception as trouble:  # one kernel that cannot be started here must not cost the others
            self._app.log.warning("the kernel of %s did not come back: %s", kernel.title, trouble)
            self._lack(kernel, ALL, f"its kernel did not come back: {in_words(trouble)}")

    async def _bring_back_one(self, kernel: Kernel, snapshot: Path) -> None:
        path = kernel.notebooks[0].path if kernel.notebooks else ""
        manager = self._manager
        await manager.start_kernel(kernel_id=kernel.id, kernel_name=kernel.kind, path=path)
        for one in kernel.notebooks:
            await self._app.session_manager.save_session(
                one.id, path=one.path, name=one.name, type=one.type, kernel_id=kernel.id
            )
        managed = manager.get_kernel(kernel.id)
        if not _is_python(managed):
            self._lack(kernel, ALL, NOT_PYTHON)
            return
        line = KernelLine(managed)
        await line.__aenter__()
        answer = snapshot / LOADED_FILE
        begun = line.begin(in_kernel.line("load", folder=str(snapshot), answer=str(answer)))
        task = asyncio.ensure_future(self._loaded(kernel, line, begun, answer))
        self._loading[kernel.id] = task
        task.add_done_callback(lambda done: self._loading.pop(kernel.id, None))
        await asyncio.wait([task], timeout=LOAD_FIRST_S)

    async def _loaded(self, kernel: Kernel, line: KernelLine, begun: str, answer: Path) -> None:
        try:
            await line.answered(begun, LOAD_LIMIT_S)
            self._lacking[kernel.id] = _read_lacking(answer)
        except (NoAnswer, Refused, OSError, ValueError) as trouble:
            self._lack(kernel, ALL, in_words(trouble))
        finally:
            await line.__aexit__()

    def _lack(self, kernel: Kernel, name: str, why: str) -> None:
        self._lacking.setdefault(kernel.id, []).append(Lacking(name, why))

    # --- told ------------------------------------------------------------------------------------

    async def state(self) -> dict[str, object]:
        kernels = await self._living()
        titles = {kernel.id: kernel.title for kernel in kernels}
        watches = self._watched(tuple(titles))
        several = len(kernels) > 1
        return {
            "kernels": len(kernels),
            "busy": sum(watch.busy for watch in watches.values()),
            "turns": {one: watch.turns for one, watch in watches.items()},
            "last_s": max((watch.last_s for watch in watches.values()), default=0.0),
            "terminals": self._terminals(),
            "loading": bool(self._loading),
            "came_back": self.came_back,
            "missing": _told(self._lacking, titles, several),
            "unsaved": _told(self._unsaved, titles, several),
        }

    def _watched(self, kernel_ids: tuple[str, ...]) -> dict[str, Watch]:
        for gone in self._watches.keys() - set(kernel_ids):
            self._watches.pop(gone).close()
        return {one: self._watch(one) for one in kernel_ids}

    def _watch(self, kernel_id: str) -> Watch:
        if kernel_id not in self._watches:
            self._watches[kernel_id] = Watch(self._manager.get_kernel(kernel_id))
        return self._watches[kernel_id]

    def _terminals(self) -> list[float]:
        """When each of them was used last."""
        manager = self._app.web_app.settings.get("terminal_manager")
        terminals = {} if manager is None else manager.terminals
        return [_unix_s(terminal.last_activity) for terminal in terminals.values()]


def _save_line(folder: Path, older: Path | None, limit_s: float, *, beside: bool = False) -> str:
    return in_kernel.line(
        "save",
        into=str(folder),
        older="" if older is None else str(older),
        limit_s=limit_s,
        until=time.time() + limit_s,
        beside=beside,
    )


def _so_far(tries: list[Path], folder: Path) -> bool:
    """A kernel that was given up in the middle has told of what it had written by then."""
    found = [(about, place) for place in tries if (about := read_about(place)) is not None]
    if not found:
        return False
    _, best = min(found, key=lambda one: len(one[0].unsaved))
    try:
        best.rename(folder)
    except OSError:
        return False
    return True


def _read_lacking(answer: Path) -> list[Lacking]:
    with open(answer, "rb") as file:
        told = json.loads(file.read(ABOUT_MAX_BYTES))
    return [Lacking(str(one["name"]), str(one["why"])) for one in told[:LACKING_MAX]]


def _told(lists: dict[str, list[Lacking]], titles: dict[str, str], several: bool) -> list[dict[str, str]]:
    found = []
    for kernel_id, lacking in lists.items():
        for one in lacking:
            name = f"{titles.get(kernel_id, kernel_id)}: {one.name}" if several else one.name
            found.append({"name": name, "why": one.why})
    return found[:LACKING_MAX]


def _is_python(managed: Any) -> bool:
    spec = managed.kernel_spec
    return spec is not None and spec.language == "python"


def _unix_s(moment: Any) -> float:
    return float(moment.timestamp())
