"""Having the image a guest runs in: found in the engine, or fetched, checked and loaded.

Several guests that need the same image wait for one fetch. What was fetched is checked twice before the
engine sees it: the file against its hash, and the image in it against the digest the job is pinned to.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from gpunion.agent.machine.image_budget import ImageShelf, NoRoom
from gpunion.agent.tasks import in_own_thread
from gpunion.domain.ids import RunId
from gpunion.domain.image import Archive, Image, Parcel
from gpunion.domain.protocol.frames import Preparing
from gpunion.ports.coordinator_link import LinkFault
from gpunion.ports.images import ArchiveSource, ImageFault, Images
from gpunion.wire.image_archive import BadArchive, check_reduced, file_digest

# A coordinator that restarts on a busy machine. Counted anew whenever something arrived; a lease that ends
# meanwhile ends the start as well.
FETCH_PATIENCE_S = 60.0
FETCH_WAIT_S = 1.0
# How soon a start that was called off stops waiting.
LOOK_S = 0.1

log = structlog.get_logger()


class ImageTrouble(Exception):
    """Why there is no image, in words for the job's user."""


class _NobodyWaits(Exception):
    """All who wanted it have been called off."""


@dataclass(slots=True)
class _Fetch:
    parcel: Parcel
    task: asyncio.Task[None] | None = None
    wanted: dict[RunId | None, Callable[[], bool]] = field(default_factory=dict)  # and whether called off
    what: str = "looking for its image"
    done: float | None = None

    def called_off(self) -> bool:
        return all(called_off() for called_off in self.wanted.values())


class ImageKeeper:
    def __init__(
        self,
        images: Images,
        source: ArchiveSource,
        shelf: ImageShelf,
        *,
        fetch_wait_s: float = FETCH_WAIT_S,
        patience_s: float = FETCH_PATIENCE_S,
    ) -> None:
        self._images = images
        self._source = source
        self._shelf = shelf
        self._fetch_wait_s = fetch_wait_s
        self._patience_s = patience_s
        self._fetches: dict[str, _Fetch] = {}
        self._leaving = False

    @contextlib.asynccontextmanager
    async def held(
        self, parcel: Parcel, run_id: RunId, called_off: Callable[[], bool]
    ) -> AsyncIterator[None]:
        """The engine has it, and nothing of ours removes it before the guest's container is there."""
        with self._shelf.held(parcel.image):
            await self.have(parcel, run_id, called_off)
            yield

    async def have(self, parcel: Parcel, run_id: RunId | None, called_off: Callable[[], bool]) -> None:
        """Returns when the engine has it. NoRoom, ImageTrouble, ImageFault and LinkFault say why not."""
        while not (self._leaving or called_off()):
            fetch, task = self._under_way(parcel)
            fetch.wanted[run_id] = called_off
            try:
                while not task.done() and not called_off():
                    await asyncio.wait([task], timeout=LOOK_S)
                if task.done():
                    await task
                    return
            except _NobodyWaits:
                continue  # it stopped for want of anybody just when we came
            finally:
                fetch.wanted.pop(run_id, None)
        raise ImageTrouble("it was ended before it began")

    @property
    def busy(self) -> bool:
        return bool(self._fetches)

    def preparing(self) -> tuple[Preparing, ...]:
        """What each start that waits here waits for."""
        return tuple(
            Preparing(run_id=run_id, what=fetch.what, done=fetch.done)
            for fetch in list(self._fetches.values())
            for run_id in list(fetch.wanted)
            if run_id is not None
        )

    def shown(self) -> dict[str, Any]:
        """For the owner: what of ours is here, and how much of it may be. Reads a small file."""
        kept = self._shelf.kept()
        return {
            "quota_bytes": self._shelf.quota_bytes,
            "taken_bytes": sum(image.size_bytes for image in kept),
            "kept": [{"image": image.ref, "size_bytes": image.size_bytes} for image in kept],
        }

    async def purge(self) -> None:
        """What we brought goes with us; what a container uses or somebody named stays."""
        self._leaving = True  # stops what is being fetched; what an engine is just loading it finishes
        tasks = [fetch.task for fetch in self._fetches.values() if fetch.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self._shelf.clear)

    def _under_way(self, parcel: Parcel) -> tuple[_Fetch, asyncio.Task[None]]:
        fetch = self._fetches.get(parcel.image.digest)
        if fetch is None or fetch.task is None:
            fetch = self._fetches[parcel.image.digest] = _Fetch(parcel)
            fetch.task = asyncio.get_running_loop().create_task(self._have(fetch))
            fetch.task.add_done_callback(_looked_at)
        return fetch, fetch.task

    async def _have(self, fetch: _Fetch) -> None:
        try:
            await self._find_or_bring(fetch)
        finally:
            del self._fetches[fetch.parcel.image.digest]
            if fetch.parcel.archive is not None:
                self._shelf.settled(fetch.parcel.archive)

    async def _find_or_bring(self, fetch: _Fetch) -> None:
        image = fetch.parcel.image
        found = await asyncio.to_thread(self._images.find, image)
        if found is None:
            await self._bring(fetch)
            found = await asyncio.to_thread(self._images.find, image)
            if found is None:
                raise ImageTrouble(f"the engine took {image.ref} and does not have it")
            await asyncio.to_thread(self._shelf.brought, found, image)
        await asyncio.to_thread(self._shelf.used, found)

    async def _bring(self, fetch: _Fetch) -> None:
        image, archive = fetch.parcel.image, fetch.parcel.archive
        if archive is None:
            await self._pull(fetch, image)
            return
        file = self._shelf.landing(archive)
        try:
            await self._fetch(fetch, archive, file)
            await self._check(fetch, archive, file)
            fetch.what, fetch.done = "loading its image", None
            await in_own_thread(lambda: self._images.load(file))
        except _NobodyWaits:
            file.unlink(missing_ok=True)  # the disk is its owner's
            raise
        except OSError as error:
            file.unlink(missing_ok=True)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoRoom(
                    f"the disk filled up while {image.name} was fetched; what came was removed"
                ) from error
            raise
        except ImageFault as fault:
            file.unlink(missing_ok=True)
            if fault.no_room:
                raise NoRoom(f"the engine's disk filled up while {image.name} was loaded") from fault
            raise
        file.unlink(missing_ok=True)

    async def _pull(self, fetch: _Fetch, image: Image) -> None:
        """An engine asks only registries that a name names: a bare one could be anybody's."""
        host, slash, _ = image.name.partition("/")
        if slash and host != "localhost" and ("." in host or ":" in host):
            fetch.what = "pulling its image from the registry"
            await in_own_thread(lambda: self._images.pull(image))
            return
        other = await asyncio.to_thread(self._images.called, image.name)
        has = "" if other is None else f" (what it calls {image.name} is sha256:{other})"
        raise ImageTrouble(
            f"this machine has no sha256:{image.digest}{has}, and the campus keeps no archive of it. "
            f"Next: gpunion images add {image.ref} --from ARCHIVE"
        )

    async def _fetch(self, fetch: _Fetch, archive: Archive, file: Path) -> None:
        await asyncio.to_thread(self._shelf.make_room, archive)
        fetch.what, last_s = "fetching its image", time.monotonic()

        def reached(size_bytes: int) -> None:
            nonlocal last_s
            fetch.done, last_s = size_bytes / max(1, archive.size_bytes), time.monotonic()
            if self._leaving or fetch.called_off():
                raise _NobodyWaits
            if size_bytes > archive.size_bytes:
                raise ImageTrouble(
                    f"the archive is larger than the {archive.size_bytes} bytes it was said to be"
                )

        while True:
            try:
                await self._source.fetch_archive(archive.digest, file, reached)
                return
            except LinkFault as fault:
                if not fault.temporary or time.monotonic() - last_s > self._patience_s:
                    raise
                if self._leaving or fetch.called_off():
                    raise _NobodyWaits from fault
                log.warning("image_fetch_interrupted", image=fetch.parcel.image.ref, trouble=str(fault))
            await asyncio.sleep(self._fetch_wait_s)

    async def _check(self, fetch: _Fetch, archive: Archive, file: Path) -> None:
        """A file that is wrong is not kept: a next try begins anew."""
        fetch.what, fetch.done = "checking its image", None
        wanted = fetch.parcel.image.digest
        try:
            actual = await in_own_thread(lambda: file_digest(file))
            if actual != archive.digest:
                raise BadArchive(f"what arrived has SHA-256 {actual}, not {archive.digest}")
            holds = await in_own_thread(lambda: check_reduced(file))
            if holds != wanted:
                raise BadArchive(f"the archive holds sha256:{holds}, not sha256:{wanted}")
        except BadArchive as bad:
            file.unlink(missing_ok=True)
            raise ImageTrouble(
                f"the image {fetch.parcel.image.name} is not what it was called: {bad}"
            ) from bad


def _looked_at(task: asyncio.Task[None]) -> None:
    """Those who waited have been told. Where nobody waits any more, its trouble is nobody's."""
    if not task.cancelled():
        task.exception()
