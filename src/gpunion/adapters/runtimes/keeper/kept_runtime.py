"""Guests that each have a keeper, a process that outlives the agent: all a runtime does but the confining.

The truth is in the guests' directories and in the kernel; this object remembers nothing that matters, so a
new one over the same state directory (after a restart) knows as much. See `names` for the files.
How a guest is shut in is the plan in launch.json, made by the runtimes that build on this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import select
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from gpunion.adapters.runtimes.keeper import guest_dir as layout
from gpunion.adapters.runtimes.keeper.guest_dir import PACKAGE_DIR
from gpunion.adapters.runtimes.keeper.limits import leave_limits
from gpunion.adapters.runtimes.keeper.names import (
    FAILED,
    KEEPER_LOG_FILE,
    LAUNCH_FILE,
    LOCK_FILE,
    REFUSED,
)
from gpunion.adapters.runtimes.keeper.proxy_socket import LIST_FILE
from gpunion.adapters.runtimes.keeper.signals import listeners
from gpunion.adapters.runtimes.keeper.streams import guest_sockets
from gpunion.adapters.runtimes.keeper.streams.entering import port_of, someone_inside
from gpunion.adapters.runtimes.keeper.streams.threads import beside
from gpunion.adapters.runtimes.keeper.users import GuestUsers
from gpunion.files import read_json, write_json
from gpunion.owner_kill import (
    KEEPER_PATIENCE_S,
    KILL_LIMIT_S,
    OWNER_KILL_FILE,
    SCAN_PAUSE_S,
    killed_at_s,
)
from gpunion.owner_kill.guest import (
    EXIT_FILE,
    GUESTS_DIR,
    KILL_FILE,
    LIMITS_FILE,
    clear_cgroup,
    lives,
    note_kill,
    read_keeper,
    settle,
    strike,
)
from gpunion.owner_kill.processes import send_signal
from gpunion.ports.guest_streams import GuestStream, NotReached
from gpunion.ports.runtime import (
    ExitReason,
    GuestPaths,
    GuestSpec,
    GuestStatus,
    HostUse,
    RuntimeFault,
)
from gpunion.text import counted
from gpunion.tunnel.messages import PIECE_BYTES
from gpunion.tunnel.targets import Place, Port, Socket, Terminal

LOG_LIMIT_BYTES = 64 * 1024 * 1024  # a day of a chatty training loop
START_LIMIT_S = 30.0  # a keeper answers in a tenth of a second, or something is very wrong
EXIT_POLL_S = 0.02
ANSWER_BYTES = 64
KEEPER_LOG_BYTES = 500  # of its end, in a fault's message
_REMOVING = ThreadPoolExecutor(2, thread_name_prefix="gpunion-removing")


class KeptRuntime(ABC):
    """The part of `ports.runtime.Runtime` that every technology shares."""

    keeper_module: str
    sandboxed: bool

    def __init__(self, state_dir: str | os.PathLike[str]) -> None:
        self._state_dir = Path(state_dir).resolve()
        self._keepers: dict[str, subprocess.Popen[bytes]] = {}  # only to collect them when they have ended
        self._reachable: tuple[str, ...] = ()
        self._users = GuestUsers()
        (self._state_dir / GUESTS_DIR).mkdir(mode=0o700, parents=True, exist_ok=True)
        # While there is room for it: an owner kills on a full disk as well.
        with contextlib.suppress(OSError):  # the kill says so if it has to
            (self._state_dir / OWNER_KILL_FILE).parent.mkdir(mode=0o755, exist_ok=True)

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def unenforced(self) -> tuple[str, ...]: ...

    @abstractmethod
    def describe(self) -> str: ...

    @abstractmethod
    def _launch(self, spec: GuestSpec, paths: GuestPaths) -> dict[str, object]:
        """How the keeper starts this guest. Called at most once per run; may hand directories over."""

    def allow_places(self, places: tuple[str, ...]) -> None:
        """What guests with a network may reach from now on, those here among them. See `domain.egress`."""
        # In place: a doorman has it open and could not open another.
        descriptor = os.open(self._state_dir / LIST_FILE, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb", buffering=0) as file:
            file.truncate(file.write(json.dumps({"allow": list(places)}).encode()))
        self._reachable = places

    def _network_described(self) -> str:
        if not self._reachable:
            return "without network"
        return f"with a door to {counted(len(self._reachable), 'place')} for guests that ask for it"

    def _check_network(self, spec: GuestSpec) -> None:
        if spec.network and not self._reachable:
            raise RuntimeFault("the owner of this machine allows guests no network", temporary=False)

    def _start_limit_s(self, run_id: str) -> float:
        """How long a keeper may take until it answers."""
        del run_id
        return START_LIMIT_S

    def _keeper_environment(self) -> dict[str, str]:
        return {"PATH": os.defpath, "PYTHONPATH": str(PACKAGE_DIR.parent), "LC_ALL": "C.UTF-8"}

    def _discard(self, run_id: str, root: Path) -> None:
        """Remove what an ended guest holds outside its directory."""
        del run_id
        clear_cgroup(str(root))

    async def prepare(self, spec: GuestSpec) -> GuestPaths:
        root = layout.guest_root(self._state_dir, spec.run_id)
        return await asyncio.to_thread(layout.make_guest, root, spec)

    async def start(self, spec: GuestSpec) -> None:
        await asyncio.to_thread(self._start, spec)

    async def limit(self, run_id: str, lease_until_s: float | None, kill_at_s: float | None) -> None:
        root = self._known(run_id)
        path = str(root / LIMITS_FILE)
        with _faults(f"cannot limit {run_id}"):
            if lease_until_s is None:
                kept = (read_json(path) or {}).get("lease_until_s")
                lease_until_s = float(kept) if isinstance(kept, int | float) else None
            leave_limits(path, lease_until_s, kill_at_s)

    async def signal(self, run_id: str, signum: int) -> None:
        root = self._known(run_id)
        for pid, ticks in await asyncio.to_thread(listeners, str(root), signum, sandboxed=self.sandboxed):
            send_signal(pid, ticks, signum)

    async def kill(self, run_id: str, reason: ExitReason) -> GuestStatus | None:
        return await asyncio.to_thread(self._kill, run_id, reason)

    async def status(self, run_id: str) -> GuestStatus | None:
        return await asyncio.to_thread(self._status, layout.guest_root(self._state_dir, run_id))

    async def guests(self) -> tuple[GuestStatus, ...]:
        return await asyncio.to_thread(self._guests)

    async def wait_exit(self, run_id: str) -> GuestStatus:
        root = self._known(run_id)
        while True:
            status = await asyncio.to_thread(self._status, root)
            if status is None:
                raise RuntimeFault(f"no guest {run_id} here any more", temporary=False)
            if status.exit_reason is not None:
                return status
            await asyncio.sleep(EXIT_POLL_S)

    async def remove(self, run_id: str) -> None:
        # A guest's tree takes as long as it made it: not in the threads by which others are ended.
        await asyncio.get_running_loop().run_in_executor(_REMOVING, self._remove, run_id)

    async def connect(self, run_id: str, place: Place) -> GuestStream:
        """As `ports.guest_streams` says."""
        match place:
            case Socket():
                scratch_dir = layout.guest_paths(self._place_of(run_id)).scratch_dir
                found = await guest_sockets.connected(scratch_dir, place.file, self._guest_ids())
                return GuestStream(*await asyncio.open_unix_connection(sock=found, limit=PIECE_BYTES))
            case Port():
                if not self.sandboxed:
                    raise NotReached("guests have no network of their own there: its port is the machine's")
                inside = await beside(partial(someone_inside, self._place_of(run_id)))
                return await port_of(inside, place)
            case Terminal():
                return await self._terminal(self._place_of(run_id), place)

    @abstractmethod
    async def _terminal(self, root: Path, place: Terminal) -> GuestStream:
        """A shell of the guest's user, inside it."""

    def _guest_ids(self) -> Container[int] | None:
        """Who may listen at a guest's sockets; None: whoever owns its folders."""
        return None

    def _place_of(self, run_id: str) -> Path:
        try:
            return self._known(run_id)
        except RuntimeFault as fault:
            raise NotReached(str(fault)) from fault

    def _known(self, run_id: str) -> Path:
        root = layout.guest_root(self._state_dir, run_id)
        if layout.read_guest(root) is None:
            raise RuntimeFault(f"no guest {run_id} here", temporary=False)
        return root

    def _start(self, spec: GuestSpec) -> None:
        root = layout.guest_root(self._state_dir, spec.run_id)
        paths = layout.make_guest(root, spec)
        if read_keeper(str(root)) is not None or (root / EXIT_FILE).exists():
            return
        if killed_at_s(self._state_dir) is not None:
            raise RuntimeFault("the owner has ended all guests and not resumed", temporary=False)
        with _faults(f"cannot start {spec.run_id}"):
            write_json(str(root / LAUNCH_FILE), self._launch(spec, paths), durable=False)
            answer = self._spawn_keeper(spec.run_id, root)
        if answer == REFUSED and killed_at_s(self._state_dir) is not None:
            raise RuntimeFault("the owner has ended all guests and not resumed", temporary=False)
        if answer == FAILED:
            raise RuntimeFault(f"cannot start {spec.run_id}: {_keeper_words(root)}", temporary=False)
        if not answer:
            raise RuntimeFault(f"the keeper of {spec.run_id} died: {_keeper_words(root)}", temporary=True)

    def _spawn_keeper(self, run_id: str, root: Path) -> bytes:
        """Start the keeper, detached, and wait for its answer; empty when it died without one."""
        read_end, write_end = os.pipe()
        command = [
            sys.executable,
            "-S",
            "-P",
            "-m",
            self.keeper_module,
            str(root),
            str(write_end),
        ]
        try:
            with open(root / KEEPER_LOG_FILE, "ab") as errors:
                self._keepers[run_id] = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    cwd="/",
                    env=self._keeper_environment(),
                    pass_fds=(write_end,),
                    start_new_session=True,
                )
        finally:
            os.close(write_end)
            answer = _read_answer(read_end, self._start_limit_s(run_id))
        return answer

    def _kill(self, run_id: str, reason: ExitReason) -> GuestStatus | None:
        root = layout.guest_root(self._state_dir, run_id)
        if layout.read_guest(root) is None:
            return None
        directory = str(root)
        if not (root / EXIT_FILE).exists():
            note_kill(directory, reason)
            if read_keeper(directory) is None:
                with _faults(f"cannot end {run_id}"):
                    _bar_from_starting(root, reason)
        began_s = time.monotonic()
        while lives(directory):
            waited_s = time.monotonic() - began_s
            if waited_s > KILL_LIMIT_S:
                raise RuntimeFault(
                    f"processes of {run_id} do not die; is a driver or disk stuck?", temporary=True
                )
            strike(directory, keeper_too=waited_s > KEEPER_PATIENCE_S)
            self._collect(run_id)
            time.sleep(SCAN_PAUSE_S)
        settle(directory, reason)
        return self._status(root)

    def _status(self, root: Path) -> GuestStatus | None:
        guest = layout.read_guest(root)
        if guest is None:
            return None
        self._collect(root.name)
        directory = str(root)
        alive = lives(directory)
        record = read_json(str(root / EXIT_FILE))
        if record is None and not alive and read_keeper(directory) is not None:
            # Its keeper is gone without a word. What is left of the guest, if anything, has been looked for.
            settle(directory, _noted_reason(root) or ExitReason.LOST)
            record = read_json(str(root / EXIT_FILE))
        keeper = read_keeper(directory)
        if record is None and alive and keeper is not None and not keeper.alive():
            strike(directory, keeper_too=False)  # orphans that nobody keeps within limits any more
        code = None if record is None else record["exit_code"]
        return GuestStatus(
            run_id=root.name,
            job_id=guest[0],
            epoch=guest[1],
            alive=alive and record is None,
            exit_code=None if code is None else int(str(code)),
            exit_reason=None if record is None else ExitReason(str(record["reason"])),
            used=None if record is None else _used(record.get("used")),
        )

    def _guests(self) -> tuple[GuestStatus, ...]:
        guests = self._state_dir / GUESTS_DIR
        for leftover in guests.glob(".removed-*"):
            layout.delete_tree(leftover)
        found = (self._status(root) for root in sorted(guests.iterdir()) if not root.name.startswith("."))
        return tuple(status for status in found if status is not None)

    def _remove(self, run_id: str) -> None:
        root = layout.guest_root(self._state_dir, run_id)
        status = self._status(root)
        if status is not None and status.alive:
            raise RuntimeFault(f"{run_id} is alive: end it before it is removed", temporary=False)
        keeper = self._keepers.pop(run_id, None)
        if keeper is not None:
            keeper.wait()  # it has recorded the end; only its own exit is left
        if root.exists():
            self._discard(run_id, root)
            aside = root.with_name(f".removed-{run_id}-{time.monotonic_ns()}")
            with _faults(f"cannot remove {run_id}"):
                root.rename(aside)  # at once unknown, even when deleting it takes long
                layout.delete_tree(aside)
                self._users.give_back(root)

    def _collect(self, run_id: str) -> None:
        keeper = self._keepers.get(run_id)
        if keeper is not None and keeper.poll() is not None:
            self._keepers.pop(run_id, None)


def _used(record: object) -> HostUse | None:
    if not isinstance(record, dict):
        return None  # nobody measured it
    return HostUse(
        for_s=float(record["for_s"]), cpu_s=float(record["cpu_s"]), memory_bytes=int(record["memory_bytes"])
    )


def _bar_from_starting(root: Path, reason: ExitReason) -> None:
    """End a guest that was only prepared. A keeper that starts just now holds the lock and sees kill.json."""
    with open(root / LOCK_FILE, "ab") as lock, contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if read_keeper(str(root)) is None:
            write_json(str(root / EXIT_FILE), {"exit_code": None, "reason": str(reason)})


def _read_answer(descriptor: int, limit_s: float) -> bytes:
    with open(descriptor, "rb", buffering=0) as answers:
        if not select.select([answers], [], [], limit_s)[0]:
            raise RuntimeFault(f"the keeper did not answer within {limit_s:.0f} s", temporary=True)
        return answers.read(ANSWER_BYTES) or b""


def _keeper_words(root: Path) -> str:
    try:
        words = (root / KEEPER_LOG_FILE).read_bytes()[-KEEPER_LOG_BYTES:].decode(errors="replace").strip()
    except OSError:
        words = ""
    return words.rpartition("\n")[2] or "it left no word"


def _noted_reason(root: Path) -> str:
    return str((read_json(str(root / KILL_FILE)) or {}).get("reason", ""))


@contextlib.contextmanager
def _faults(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RuntimeFault(f"{what}: {error}", temporary=True) from error
