"""What jobs made and no place took: it stays on this machine for a while, and is sent when there is room.

Nothing of a guest runs any more by then; these are files, as many bytes as the owner allows one guest, for a
week. They go before that when they have arrived, when a newer run of the job has begun, or with the agent.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from gpunion.agent.checkpoints.shipping import Cancelled, Sending, output_label, output_of, send
from gpunion.agent.dependencies import World
from gpunion.agent.id_paths import path_of
from gpunion.agent.run_records.notes import RunNote, note_of, record_of
from gpunion.agent.tasks import in_own_thread
from gpunion.domain.protocol.events import KeptOutputSent
from gpunion.domain.resources import GIB
from gpunion.files import read_json, sync_directory, write_json
from gpunion.vault.manifest import BadManifest, DamagedRecord, OldEpoch, VaultFault

UNSENT_DIR = "unsent"
NOTE_FILE, OUTPUT_DIR = "note.json", "output"
KEPT_FOR_S = 7 * 86400.0  # a holiday of whoever makes room, and no owner's disk for ever
# All of them together, where the owner's terms have no bound for what one guest writes.
KEPT_MOST_BYTES = 32 * GIB
AGAIN_S = 60.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    note: RunNote
    step: int
    until_unix_s: float
    size_bytes: int
    folder: Path

    @property
    def until(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.until_unix_s))


# Returns when the event is on the agent's disk.
Tell = Callable[[KeptOutputSent], Awaitable[None]]


class _WhileLent(Cancelled):
    """Asked for by itself when the owner has the machine again, in the middle of an upload too."""

    def __init__(self, lending: Callable[[], bool]) -> None:
        super().__init__()
        self._lending = lending

    def __call__(self) -> bool:
        return super().__call__() or not self._lending()


class UnsentOutputs:
    """Implements `world.OutputShelf`. `bound_bytes`: what the owner's terms allow one guest, if anything."""

    def __init__(
        self,
        folder: Path,
        *,
        bound_bytes: Callable[[], int | None] = lambda: None,
        unix_s: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._bound_bytes = bound_bytes
        self._unix_s = unix_s
        self._lock = threading.Lock()

    def kept(self, run_id: str) -> str:
        found = _read(path_of(self._folder, run_id))
        return "" if found is None else found.until

    def keep(self, note: RunNote, step: int) -> str:
        with self._lock:
            try:
                return self._keep(note, step)
            except OSError as error:
                log.warning("output_not_kept", run=note.run_id, trouble=str(error))
                shutil.rmtree(path_of(self._folder, note.run_id), ignore_errors=True)
                return ""

    def shown(self) -> list[dict[str, object]]:
        """For the owner, whose disk it is. In every answer to them: a sick disk must not cost them those."""
        try:
            kept = self.all()
        except OSError:
            kept = []
        return [
            {
                "run_id": one.note.run_id,
                "size_bytes": one.size_bytes,
                "until": one.until,
                "folder": os.fspath(one.folder),
            }
            for one in kept
        ]

    def all(self) -> list[Unsent]:
        """Those that came first are first."""
        found = [_read(folder) for folder in self._folders()]
        return sorted((one for one in found if one is not None), key=lambda one: one.until_unix_s)

    async def run(self, world: World, lending: Callable[[], bool], tell: Tell) -> None:
        """Until cancelled. Sends only while the machine is lent: its owner's uplink is their own."""
        stopped = _WhileLent(lending)
        try:
            while True:
                try:
                    await asyncio.to_thread(self.sweep)
                    for one in await asyncio.to_thread(self.all):
                        if not lending() or world.run_notes.get(one.note.run_id) is not None:
                            continue  # the latter: the end of its run is told first
                        if sent := await self._settled(world, one, stopped):
                            await tell(sent)  # before it goes: sending it once more would do no harm
                            await asyncio.to_thread(_forget, one)
                except OSError as error:
                    log.warning("unsent_outputs_not_read", folder=str(self._folder), trouble=str(error))
                await asyncio.sleep(AGAIN_S)
        finally:
            stopped.ask()

    def sweep(self) -> None:
        """Also while the owner has the machine: what has had its time goes, and what a crash left halfway."""
        with self._lock:
            for folder in self._folders():
                halfway = not (folder / NOTE_FILE).exists() or not (folder / OUTPUT_DIR).is_dir()
                if halfway or (_read(folder) is None and self._has_lain_long(folder)):
                    shutil.rmtree(folder, ignore_errors=True)
            for one in self.all():
                if self._unix_s() >= one.until_unix_s:
                    log.warning("unsent_output_dropped", run=one.note.run_id, trouble="its time here is over")
                    _forget(one)

    def settle(self, world: World, one: Unsent, cancelled: Cancelled) -> KeptOutputSent | None:
        """Sends it, or lets it go where that is of no use any more; else it waits for the next time."""
        note = one.note
        try:
            self._send(world, one, cancelled)
        except DamagedRecord:
            return None  # it is the vault's that has to be mended, within its week
        except (OldEpoch, BadManifest) as fault:
            log.warning("unsent_output_dropped", run=note.run_id, trouble=str(fault))
            _forget(one)
            return None
        except (VaultFault, OSError):
            return None  # also where a place refuses us: somebody may see to that within its week
        world.replicate(note.job_id, note.places)
        return KeptOutputSent(
            run_id=note.run_id, job_id=note.job_id, epoch=note.epoch, output=output_of(note)
        )

    async def _settled(self, world: World, one: Unsent, cancelled: Cancelled) -> KeptOutputSent | None:
        try:
            return await in_own_thread(partial(self.settle, world, one, cancelled))
        except Exception:  # of one output, not of the agent
            log.exception("unsent_output_not_sent", run=one.note.run_id)
            return None

    def _keep(self, note: RunNote, step: int) -> str:
        bound_bytes, size_bytes = self._bound_bytes(), _size_bytes(note.paths.output_dir)
        held_bytes = sum(one.size_bytes for one in self.all())
        if held_bytes + size_bytes > (KEPT_MOST_BYTES if bound_bytes is None else bound_bytes):
            log.warning("output_not_kept", run=note.run_id, trouble="too much is kept here already")
            return ""
        folder = path_of(self._folder, note.run_id)
        _make_removable(note.paths.output_dir)
        shutil.rmtree(folder, ignore_errors=True)  # of an agent that died halfway: its output is not in it
        folder.mkdir(mode=0o700, parents=True)
        until_unix_s = self._unix_s() + KEPT_FOR_S
        more = {"step": step, "until_unix_s": until_unix_s, "size_bytes": size_bytes}
        # Last: without its output a note means nothing, and an output without a note is nobody's.
        write_json(os.fspath(folder / NOTE_FILE), record_of(note) | more, private=True)
        os.rename(note.paths.output_dir, folder / OUTPUT_DIR)
        # There is no other copy any more: a disk that fails to sync it is no reason to remove it.
        with suppress(OSError):
            sync_directory(os.fspath(folder))
        return self.kept(note.run_id)

    def _send(self, world: World, one: Unsent, cancelled: Cancelled) -> None:
        send(
            world,
            Sending(
                note=one.note,
                directory=one.folder / OUTPUT_DIR,
                label=output_label(one.note, one.step),
                pace=lambda sent_bytes: world.caps.pace(sent_bytes, cancelled),
                cancelled=cancelled,
                told=lambda done_bytes, total_bytes: None,
            ),
        )

    def _has_lain_long(self, folder: Path) -> bool:
        """For one whose note says nothing any more: nobody could ever send it."""
        return self._unix_s() >= folder.stat().st_mtime + KEPT_FOR_S

    def _folders(self) -> Iterator[Path]:
        if self._folder.is_dir():
            yield from self._folder.iterdir()


def _read(folder: Path) -> Unsent | None:
    """None for one that was not finished, is not ours, or that the disk does not give back."""
    try:
        record = read_json(os.fspath(folder / NOTE_FILE))
        note = note_of(record)
        if record is None or note is None or not (folder / OUTPUT_DIR).is_dir():
            return None
        return Unsent(
            note=note,
            step=int(str(record["step"])),
            until_unix_s=float(str(record["until_unix_s"])),
            size_bytes=int(str(record["size_bytes"])),
            folder=folder,
        )
    except (OSError, KeyError, ValueError):
        return None


def _forget(one: Unsent) -> None:
    shutil.rmtree(one.folder, ignore_errors=True)


def _make_removable(root: Path) -> None:
    """A program may leave directories that nobody may change. OSError where that is not ours to give: what we
    could not remove we do not keep either."""
    for place, _, _ in os.walk(root):
        mode = stat.S_IMODE(os.stat(place).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(place, mode | stat.S_IRWXU)


def _size_bytes(root: Path) -> int:
    found = (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)
    return sum(os.lstat(name).st_size for name in found)
