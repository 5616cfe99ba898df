"""Brings what guests print to the coordinator: late, or not at all when nobody listens; never in the way."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import structlog

from gpunion.agent.id_paths import path_of
from gpunion.ports.coordinator_link import CoordinatorLink, LinkFault

PIECE_BYTES = 256 * 1024
LOOK_S = 0.5
# Pieces of one log in a row, so that a chatty guest does not keep the others waiting.
PIECES_AT_ONCE = 8
TROUBLE_WAIT_S = 3.0
# Logs of guests that are gone wait here for a coordinator that is away; the oldest go first.
KEPT_MAX = 64
# A coordinator that answered "no" this often about one log will not take it.
REFUSALS_MAX = 5

log = structlog.get_logger()


@dataclass(slots=True)
class _Tail:
    path: Path
    offset: int = 0
    over: bool = False  # the guest is gone: once everything is sent, so is this
    refusals: int = 0


class LogPusher:
    def __init__(self, link: CoordinatorLink, kept_dir: Path) -> None:
        self._link = link
        self._kept_dir = kept_dir
        self._tails: dict[str, _Tail] = {}

    def open(self) -> None:
        """Take up what an earlier agent did not get rid of."""
        self._kept_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in sorted(self._kept_dir.iterdir()):
            self._tails[path.name] = _Tail(path, over=True)

    def follow(self, run_id: str, path: Path) -> None:
        # From 0 on: the coordinator answers with how far it has it already.
        self._tails.setdefault(run_id, _Tail(path))

    def keep_rest(self, run_id: str, path: Path) -> None:
        """The guest's directories are about to go; what was not sent yet stays under another name."""
        tail = self._tails.get(run_id) or _Tail(path)
        kept = path_of(self._kept_dir, run_id)
        try:
            if not kept.exists():
                os.link(path, kept, follow_symlinks=False)
        except OSError:
            self._tails.pop(run_id, None)
            return
        self._tails[run_id] = _Tail(kept, offset=tail.offset, over=True)
        gone = [name for name, other in self._tails.items() if other.over]
        for name in gone[: max(0, len(gone) - KEPT_MAX)]:
            self._drop(name)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            wait_s = LOOK_S
            for run_id in list(self._tails):
                try:
                    await self._push(run_id)
                except LinkFault as fault:
                    if fault.temporary:
                        wait_s = TROUBLE_WAIT_S
                        break
                    wait_s = TROUBLE_WAIT_S
                    self._refused(run_id, str(fault))
            await asyncio.sleep(wait_s)

    async def _push(self, run_id: str) -> None:
        for _ in range(PIECES_AT_ONCE):
            tail = self._tails.get(run_id)
            if tail is None:
                return
            data = await asyncio.to_thread(_read, tail)
            if not data:
                if tail.over:
                    await self._end(run_id, tail)
                return
            offset = await self._link.push_log(run_id, tail.offset, data)
            if offset == tail.offset:
                raise LinkFault("the coordinator takes no more of this log", temporary=False)
            tail.offset, tail.refusals = offset, 0

    async def _end(self, run_id: str, tail: _Tail) -> None:
        """Says that nothing more comes: until then its readers wait, and the file stays."""
        wanted = await self._link.push_log(run_id, tail.offset, b"", end=True)
        if wanted == tail.offset:
            self._drop(run_id)
        else:
            tail.offset = wanted

    def _refused(self, run_id: str, trouble: str) -> None:
        tail = self._tails.get(run_id)
        if tail is None or not tail.over:
            return  # a living guest's log may be wanted later
        tail.refusals += 1
        if tail.refusals >= REFUSALS_MAX:
            log.warning("log_not_taken", run=run_id, trouble=trouble)
            self._drop(run_id)

    def _drop(self, run_id: str) -> None:
        tail = self._tails.pop(run_id, None)
        if tail is not None and tail.over:
            tail.path.unlink(missing_ok=True)


def _read(tail: _Tail) -> bytes:
    try:
        with open(tail.path, "rb", opener=_not_following) as file:
            file.seek(tail.offset)
            return file.read(PIECE_BYTES)
    except OSError:
        return b""


def _not_following(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)
