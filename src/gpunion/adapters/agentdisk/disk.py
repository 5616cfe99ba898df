"""The agent's memory on disk: read once at start, replaced after every decision that changed it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpunion.adapters.agentdisk.saved_agent import FromTheFuture, Unreadable, from_text, to_text
from gpunion.domain.jobs.guest import Holding, OwnerState
from gpunion.domain.protocol.commit import SavedAgent
from gpunion.files import NO_ROOM, sync_directory
from gpunion.owner_kill.processes import boot_id
from gpunion.ports.agent_disk import DiskFault, Remembered

STATE_FILE = "state.json"
SET_ASIDE = "unreadable"
# Some hundred guests with their reports fit a megabyte; anything near this is not ours.
STATE_LIMIT_BYTES = 256 * 1024**2
# Given up when the disk is full, so that what happened can still be remembered and told: a guest that filled
# it ends, and only then is its room free again. Many times what the memory of a busy agent has.
RESERVE_FILE, RESERVE_BYTES = "reserve", 4 * 1024**2


class JsonAgentDisk:
    def __init__(self, directory: Path, *, boot: Callable[[], str] = boot_id) -> None:
        self._directory = directory
        self._path = directory / STATE_FILE
        self._boot = boot
        self._reserved = False

    def load(self, now_s: float) -> Remembered:
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._drop_unfinished()
            self._reserve()
            text = self._read()
        except OSError as error:
            raise DiskFault(f"{self._path} cannot be read: {error.strerror or error}") from error
        except Unreadable as error:
            return self._start_over(str(error))
        if text is None:
            return Remembered(saved=SavedAgent(incarnation=new_incarnation()))
        try:
            saved, written_in = from_text(text)
        except FromTheFuture as error:
            raise DiskFault(
                f"{self._path} was written by a newer GPUnion ({error}). Next: install that version again"
            ) from error
        except Unreadable as error:
            return self._start_over(str(error))
        if written_in == self._boot():
            return Remembered(saved=saved)
        return Remembered(saved=after_reboot(saved, now_s), rebooted=True)

    def write(self, saved: SavedAgent) -> None:
        text = to_text(saved, self._boot())
        try:
            try:
                self._write(text)
            except OSError as error:
                if error.errno not in NO_ROOM or not self._give_up_reserve():
                    raise
                self._write(text)
        except OSError as error:
            raise DiskFault(
                f"{self._path} cannot be written: {error.strerror or error}", no_room=error.errno in NO_ROOM
            ) from error
        if not self._reserved:
            self._reserve()

    def _write(self, text: str) -> None:
        unfinished = self._directory / f"{STATE_FILE}.{os.getpid()}.tmp"
        with open(unfinished, "w", encoding="utf-8", opener=_private) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(unfinished, self._path)
        sync_directory(os.fspath(self._directory))

    def _reserve(self) -> None:
        """Once there is more room than it takes; without it everything works but a full disk."""
        place = self._directory / RESERVE_FILE
        with contextlib.suppress(OSError):
            if not place.exists() and shutil.disk_usage(self._directory).free > 8 * RESERVE_BYTES:
                _fill(place)
            self._reserved = place.exists()

    def _give_up_reserve(self) -> bool:
        """Whether there was any."""
        try:
            (self._directory / RESERVE_FILE).unlink()
        except OSError:
            return False
        finally:
            self._reserved = False
        return True

    def _read(self) -> str | None:
        try:
            size_bytes = self._path.stat().st_size
            if size_bytes > STATE_LIMIT_BYTES:
                raise Unreadable(f"its {size_bytes} bytes are more than an agent ever writes")
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise Unreadable(f"it is not text: {error.reason}") from error

    def _drop_unfinished(self) -> None:
        for path in self._directory.glob(f"{STATE_FILE}.*.tmp"):
            path.unlink(missing_ok=True)

    def _start_over(self, trouble: str) -> Remembered:
        """Nothing is guessed from a damaged memory. The owner's last word is unknown, so nobody new comes."""
        aside = self._directory / f"{STATE_FILE}.{SET_ASIDE}-{secrets.token_hex(4)}"
        try:
            os.rename(self._path, aside)
            sync_directory(os.fspath(self._directory))
        except OSError as error:
            raise DiskFault(f"{self._path} is damaged and cannot be moved: {error.strerror}") from error
        message = (
            f"the agent's memory was damaged ({trouble}) and is kept as {aside.name}. All guests are ended "
            "and no new ones come. Next: gpunion resume, to share again"
        )
        paused = SavedAgent(incarnation=new_incarnation(), records=(Holding(owner_state=OwnerState.PAUSED),))
        return Remembered(saved=paused, forgot=message)


def _fill(place: Path) -> None:
    """All of it or nothing: within a quota half of it would be all that was left to anybody."""
    try:
        place.write_bytes(os.urandom(RESERVE_BYTES))  # zeros may take no room at all
    except OSError:
        place.unlink(missing_ok=True)
        raise


def after_reboot(saved: SavedAgent, now_s: float) -> SavedAgent:
    """The clock began anew and no guest survived: every moment waited for counts as come."""
    records = tuple(
        _without_moments(record, now_s) if isinstance(record, Holding) else record for record in saved.records
    )
    return replace(saved, records=records, timers=tuple((timer, now_s) for timer, _ in saved.timers))


def _without_moments(holding: Holding, now_s: float) -> Holding:
    gpus = tuple(
        replace(gpu, asked_s=now_s, deadline_s=None if gpu.deadline_s is None else now_s)
        for gpu in holding.gpus
    )
    deadline_s = None if holding.deadline_s is None else now_s
    return replace(holding, asked_s=now_s, deadline_s=deadline_s, gpus=gpus)


def new_incarnation() -> str:
    return secrets.token_hex(8)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
