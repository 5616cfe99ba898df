"""The guest's program: keeps JupyterLab and sshd going, saves when asked and by itself, tells how it is."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from types import FrameType
from typing import Any

from gpunion.sdk.job.messages import SAVED_RUN_ME_AGAIN, Mailbox, Request, Saved, read
from gpunion.sdk.session import files, ssh
from gpunion.sdk.session.lab import Lab, NoLab, clear_runtime
from gpunion.sdk.session.obstacles import why_not_whole
from gpunion.sdk.session.places import Places
from gpunion.sdk.session.saves import Outcome, Saves
from gpunion.sdk.session.sockets import Listener
from gpunion.sdk.session.told import WHY_MAX_CHARS, Teller

LOOK_S = 0.1
STATE_EVERY_S = 2.0
OBSTACLES_EVERY_S = 15.0
SAVE_EVERY_S = 180.0
SAVE_LIMIT_S = 120.0  # of one that nobody waits for
END_FILE, RESTORED_FILE = "end.json", "restored.json"
END_SAVE_LIMIT_S = 60.0
# Of a notice, what the save may take. The rest is for sending it.
NOTICE_SHARE = 0.5
# Of that, how long a save that is under way may go on; then it makes room.
UNDER_WAY_SHARE, GIVEN_UP_LIMIT_S = 0.3, 2.0
BEFOREHAND_SHARE = 0.9  # before a dump, which has its own time
NO_DEADLINE_S = 60.0
# A server that ends so often within so long will not do better the next time.
ENDS_MAX, ENDS_WITHIN_S = 5, 300.0
LAB_FAILED = 1


class Kind(StrEnum):
    NOTEBOOK = "notebook"
    SHELL = "shell"


class Session:
    def __init__(self, kind: Kind, places: Places, environment: Mapping[str, str]) -> None:
        self._places = places
        self._mailbox = Mailbox()
        self._saves = Saves(places)
        self._saves.bring_kept_back()
        self._teller = Teller(places.control)
        # Of a notebook its server knows by which level it came back, once it is there.
        self._teller.change(restored="files" if places.resumes and kind is Kind.SHELL else "")
        self._lab = Lab(places, environment) if kind is Kind.NOTEBOOK else None
        self._state: dict[str, Any] = {}
        self._saving: threading.Thread | None = None
        self._saved_s = time.monotonic()
        self._state_s = self._obstacles_s = float("-inf")
        self._ends: list[float] = []
        self._told_to_end = 0
        self._under_way = self._superseded = ""  # ids of requests
        self._came_whole = False
        self._ticks: int | None = None
        self._ssh = self._open_ssh(environment)
        self._listeners = [Listener(places.sockets / files.SOCKET, partial(files.serve_files, places.files))]
        if self._ssh is not None:
            self._listeners.append(Listener(places.sockets / ssh.SOCKET, self._ssh.serve))

    def run(self) -> int:
        """The status to end with."""
        signal.signal(signal.SIGTERM, self._on_end)
        if self._lab is not None:
            self._lab.start(self._saves.newest())
        try:
            while not self._told_to_end:
                ended = self._turn()
                if ended is not None:
                    return ended
                time.sleep(LOOK_S)
            return 128 + self._told_to_end
        finally:
            self._close()

    def _turn(self) -> int | None:
        if self._lab is not None and self._lab.ended() is not None and not self._started_again(self._lab):
            return LAB_FAILED
        self._look()
        if self._saving is None and (why := self._asked_to_end()):
            return self._end(why)
        request = self._mailbox.request()
        if request is not None and (self._saving is None or request.final):
            if self._answered(request):
                return SAVED_RUN_ME_AGAIN
        elif self._due():
            self._saved_s = time.monotonic()
            self._in_thread(lambda: self._save(SAVE_LIMIT_S))
        self._teller.tell()
        return None

    # --- JupyterLab ------------------------------------------------------------------------------

    def _started_again(self, lab: Lab) -> bool:
        now_s = time.monotonic()
        self._ends = [ended_s for ended_s in self._ends if now_s - ended_s < ENDS_WITHIN_S] + [now_s]
        self._teller.change(ready=False)
        if len(self._ends) > ENDS_MAX:
            say(f"JupyterLab ended {len(self._ends)} times in a row, the last time with status {lab.ended()}")
            return False
        say(f"JupyterLab ended with status {lab.ended()} and is started again")
        clear_runtime(self._places)
        lab.start(self._saves.newest())
        return True

    def _look(self) -> None:
        now_s = time.monotonic()
        if self._lab is None:
            self._teller.change(ready=True)  # its files are, also where nobody can enter by ssh
        elif not self._teller.state.ready:
            if not self._lab.answers():
                return
            self._teller.change(ready=True, active_at=time.time())
            self._state_s = float("-inf")
        if now_s < self._state_s + STATE_EVERY_S:
            return
        self._state_s = now_s
        self._look_at_lab()
        self._look_at_ssh()
        self._look_whether_restored()
        if now_s >= self._obstacles_s + OBSTACLES_EVERY_S:
            self._obstacles_s = now_s
            self._teller.change(whole_why_not=why_not_whole())

    def _look_at_lab(self) -> None:
        if self._lab is None:
            return
        try:
            state = self._lab.ask("GET", "/gpunion/state")
        except NoLab:
            return  # it is busy, or ends: that is seen
        self._state = state
        active = [self._teller.state.active_at, float(state["last_s"]), *state["terminals"]]
        if state["busy"]:
            active.append(time.time())
        self._teller.change(
            kernels=state["kernels"],
            busy=state["busy"],
            level="variables" if self._lab.saves_variables else "files",
            active_at=max(active),
        )
        if self._came_whole:
            return
        if state["came_back"]:
            self._teller.change(restored="variables", missing=_pairs(state["missing"]))
        elif self._places.resumes:
            self._teller.change(restored="files")

    def _look_whether_restored(self) -> None:
        """Whoever is brought back as a whole does not notice it: its agent says so."""
        path = self._places.control / RESTORED_FILE
        if (message := read(path)) is None:
            return
        path.unlink(missing_ok=True)
        self._teller.change(restored=str(message.get("level")), missing=())
        self._came_whole = True

    def _look_at_ssh(self) -> None:
        ticks = None if self._ssh is None else self._ssh.cpu_ticks()
        if ticks != self._ticks:
            self._teller.change(active_at=time.time())
        self._ticks = ticks

    # --- the end ---------------------------------------------------------------------------------

    def _asked_to_end(self) -> str:
        """Its user has had enough, or nobody has worked in it for long."""
        if (message := read(self._places.control / END_FILE)) is None:
            return ""
        return str(message.get("why") or "nobody needs it any more")[:WHY_MAX_CHARS]

    def _end(self, why: str) -> int:
        """All of it goes into the output: its files are there, its variables are put beside them."""
        say(f"the session ends: {why}")
        try:
            self._save(END_SAVE_LIMIT_S)
            self._saves.leave_in(self._places.left_behind)
        except OSError as trouble:
            say(f"its variables were not kept: {trouble}")
        return 0

    # --- saving ----------------------------------------------------------------------------------

    def _due(self) -> bool:
        idle = self._saving is None and time.monotonic() >= self._saved_s + SAVE_EVERY_S
        return (
            idle and self._teller.state.ready and self._lab is not None and self._saves.changed(self._state)
        )

    def _answered(self, request: Request) -> bool:
        """Whether that was the last one."""
        if not request.final:
            self._in_thread(lambda: self._save_for(request, _limit_s(request)), request.id)
            return False
        began_s, limit_s = time.monotonic(), _limit_s(request)
        if (saving := self._saving) is not None:
            saving.join(UNDER_WAY_SHARE * limit_s)
            if saving.is_alive():
                self._superseded = self._under_way
                self._saves.give_up()
                saving.join(GIVEN_UP_LIMIT_S)
        return self._save_for(request, max(0.5, limit_s - (time.monotonic() - began_s)))

    def _save_for(self, request: Request, limit_s: float) -> bool:
        began_s = time.monotonic()
        try:
            outcome = self._save(limit_s)
            saved = Saved(
                step=outcome.step, progress=0.0, files=outcome.files, stall_s=time.monotonic() - began_s
            )
            if request.id == self._superseded:
                return False  # the last one is under way: an answer to this would hide its own
            self._mailbox.answer(request, saved)
        except OSError as trouble:
            if request.id == self._superseded:
                return False
            say(f"the session was not saved: {trouble}")
            self._mailbox.could_not(request, trouble)
            return False
        if not request.final:
            self._saves.tidy_up()
        return request.final

    def _save(self, limit_s: float) -> Outcome:
        self._teller.change(saving=True)
        lab = self._lab if self._lab is not None and self._teller.state.ready else None
        try:
            if lab is not None:
                self._look_at_lab()
            waits = lab is None and self._lab is not None
            as_it_is = self._saves.as_it_is() if waits else None
            outcome = as_it_is or self._saves.save(lab, self._state, limit_s)
        finally:
            self._teller.change(saving=False)
        if outcome.with_variables:
            self._teller.change(saved_at=time.time(), saved_bytes=outcome.size_bytes)
        self._teller.change(unsaved=outcome.unsaved)
        self._saved_s = time.monotonic()
        return outcome

    def _in_thread(self, work: Any, request_id: str = "") -> None:
        def done() -> None:
            try:
                work()
            except OSError as trouble:
                say(f"the session was not saved: {trouble}")
            finally:
                self._saving = None

        self._under_way = request_id
        self._saving = threading.Thread(target=done, name="save", daemon=True)
        self._saving.start()

    # --- beginning and end -----------------------------------------------------------------------

    def _open_ssh(self, environment: Mapping[str, str]) -> ssh.SshServer | None:
        try:
            return ssh.SshServer(self._places, environment)
        except (ssh.NoSsh, OSError) as why:
            self._teller.change(ssh=str(why))
            return None

    def _on_end(self, signum: int, frame: FrameType | None) -> None:
        self._told_to_end = signum

    def _close(self) -> None:
        for listener in self._listeners:
            listener.close()
        if self._ssh is not None:
            self._ssh.close()
        if self._lab is not None:
            self._lab.end()


def _limit_s(request: Request) -> float:
    if request.deadline is None:
        return NO_DEADLINE_S if request.final else SAVE_LIMIT_S
    share = NOTICE_SHARE if request.final else BEFOREHAND_SHARE
    return max(0.5, share * (request.deadline - time.time()))


def _pairs(told: list[dict[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((str(one["name"]), str(one["why"])) for one in told)


def say(words: str) -> None:
    print(f"gpunion: {words}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in {kind.value for kind in Kind}:
        say("usage: python3 -m gpunion.sdk.session notebook|shell")
        return 2
    missing = [name for name in ("GPUNION_SESSION_DIR", "GPUNION_CONTROL_DIR") if name not in os.environ]
    if missing:
        say(f"this is the program of a session on a lent machine; here is no {missing[0]}")
        return 2
    places = Places.from_environment(os.environ)
    places.make()
    places.bring_files()
    places.take_up()
    try:
        return Session(Kind(arguments[0]), places, os.environ).run()
    except NoLab as why:
        say(str(why))
        return LAB_FAILED
