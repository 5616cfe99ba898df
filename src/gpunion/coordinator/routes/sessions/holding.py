"""Leads somebody's stream to a session, and lets it wait where the session is on its way.

A browser that is refused gives up on a page or asks again after half a minute; one that waits goes on in the
second in which the session is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gpunion.coordinator.api.problems import ApiError
from gpunion.coordinator.services import Campus
from gpunion.coordinator.sessions.waiting import TooManyWait
from gpunion.domain.ids import JobId
from gpunion.engine.coordinator.sessions import HOLD_S, Away, Here, Over, reach
from gpunion.tunnel.streams import Stream, StreamRefused, Tunnel
from gpunion.tunnel.targets import Place, Socket, Target

LOOK_S = 0.1
# A program that is ready and refuses: it may be starting its server again.
UNANSWERED_LIMIT_S = 15.0
JOB_ENDED, TRY_AGAIN = 410, 503


@dataclass(frozen=True, slots=True)
class Led:
    """A stream that is open, and the tunnel it is in."""

    tunnel: Tunnel
    stream: Stream


async def lead(
    campus: Campus, job_id: JobId, place: Place, *, hold_s: float = HOLD_S, gone: Callable[[], bool]
) -> Led:
    """ApiError says why not. `gone`: whoever asked has left meanwhile."""
    try:
        with campus.waiting.one(job_id):
            return await _Search(campus, job_id, place, hold_s, gone).found()
    except TooManyWait as many:
        raise ApiError(TRY_AGAIN, "too_many_wait", str(many), "try again in a moment") from many


class _Search:
    def __init__(
        self, campus: Campus, job_id: JobId, place: Place, hold_s: float, gone: Callable[[], bool]
    ) -> None:
        self._campus, self._job_id, self._place, self._gone = campus, job_id, place, gone
        self._now = asyncio.get_running_loop().time
        self._until_s = self._now() + hold_s
        self._unanswered_since_s: float | None = None
        self._where = ""
        # Of those that wait for one socket one looks: a guest lets itself be asked so often and no more.
        self._refused: StreamRefused | None = None
        self._what, self._looking = (job_id, place), campus.waiting.looking

    async def found(self) -> Led:
        try:
            while True:
                led = await self._tried()
                if led is not None:
                    return led
                if self._now() >= self._until_s or self._gone():
                    raise _away(self._where)
                await asyncio.sleep(LOOK_S)
        finally:
            self._looks_no_more()

    def _looks_no_more(self) -> None:
        """Another of those that wait looks, or all are led on."""
        if self._looking.get(self._what) is self:
            del self._looking[self._what]

    async def _tried(self) -> Led | None:
        job = self._campus.state.jobs.get(self._job_id)
        if job is None:
            raise _over("it is not known any more")
        match reach(self._campus.state, job):
            case Over(how=how):
                raise _over(how)
            case Away(where=where):
                self._where, self._unanswered_since_s, self._refused = where, None, None
                self._looks_no_more()
                return None
            case Here() as here:
                return await self._opened(here)

    async def _opened(self, here: Here) -> Led | None:
        self._check_ssh(here)
        refused = self._refused
        if refused is None or self._looking.get(self._what, self) is self:
            target = Target(run_id=here.run_id, place=self._place)
            try:
                return Led(*await self._campus.tunnels.open(here.node_id, target))
            except StreamRefused as said:
                refused = self._refused = said
                self._looking.setdefault(self._what, self)
        self._where = f"{refused} ({here.node_id})"
        if not refused.moving and not self._may_be_starting(here):
            raise ApiError(
                TRY_AGAIN,
                "not_reached",
                str(refused),
                f"look at its output (gpunion logs {self._job_id}), or ask again in a moment",
            ) from refused
        return None

    def _check_ssh(self, here: Here) -> None:
        """Its program says so once and for all: nobody waits for a server that will not be there."""
        heard = self._campus.state.sessions.get(here.run_id)
        if self._place is Socket.SSH and heard is not None and heard.note.no_ssh:
            detail = f"nobody can enter by ssh: {heard.note.no_ssh}"
            raise ApiError(TRY_AGAIN, "no_ssh", detail, f"gpunion attach {self._job_id}")

    def _may_be_starting(self, here: Here) -> bool:
        """A socket that is not there is waited for until its program says that it is ready, and a little
        longer: it may have started its server anew. Nobody says when a port is."""
        if not isinstance(self._place, Socket):
            return False
        heard = self._campus.state.sessions.get(here.run_id)
        if heard is None or not heard.note.ready:
            self._unanswered_since_s = None
            return True
        self._unanswered_since_s = self._unanswered_since_s or self._now()
        return self._now() - self._unanswered_since_s < UNANSWERED_LIMIT_S


def _away(where: str) -> ApiError:
    detail = f"the session is not there: {where}" if where else "the session is not there"
    return ApiError(TRY_AGAIN, "session_away", detail, "it comes back by itself; try again in a moment")


def _over(how: str) -> ApiError:
    next_step = "what it made is kept: gpunion sync; a new one: gpunion notebook"
    return ApiError(JOB_ENDED, "session_over", f"the session is over: {how}", next_step)
