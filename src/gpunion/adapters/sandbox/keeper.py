"""Stays with one guest from before its start until nothing of it lives: `python -m ... <guest_dir> <fd>`.

It is started by the runtime, detached, and outlives the agent. It starts the guest's program by the plan in
launch.json, copies its output to a bounded log, ends the whole guest at the earlier time of limits.json, and
writes exit.json last. It is a subreaper: a process the guest orphans becomes its child, so "no children"
means "nothing lives". When it is killed itself, the guest's first process dies with it.

One thread, no third-party import, no agent, no network: there is little that can go wrong here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import time

from gpunion.adapters.sandbox import cgroups
from gpunion.adapters.sandbox.child import Launch, become_subreaper, run_guest
from gpunion.adapters.sandbox.names import FAILED, KEPT, LIMITS_FILE, LOCK_FILE, LOG_FILE, REFUSED, STARTED
from gpunion.owner_kill import killed_at_s
from gpunion.owner_kill.guest import (
    EXIT_FILE,
    KEEPER_FILE,
    KILL_FILE,
    KILLED_BY_OWNER,
    KILLED_EXIT_CODE,
    strike,
)
from gpunion.owner_kill.processes import boot_id, remove_cgroup, start_ticks
from gpunion.owner_kill.records import read_json, write_json

POLL_S = 0.05  # how late a limit may be noticed
# A guest that nobody has limited yet: longer than an agent needs from start to limit, shorter than anybody
# would wait before restarting the job elsewhere.
FIRST_LEASE_S = 15.0
READ_BYTES = 64 * 1024
DRAIN_READS_MAX = 1024  # a process outside the guest that got hold of its output must not keep us here

# The names of ports.runtime.ExitReason, not imported: its dataclasses would triple the time to start.
EXITED, SIGNALLED, OUT_OF_MEMORY = "exited", "signalled", "out_of_memory"
LEASE_ENDED, DEADLINE, LOST, NOT_STARTED = "lease_ended", "deadline", "lost", "not_started"


def main(argv: list[str]) -> int:
    guest_dir, answer_fd = argv[0], int(argv[1])
    os.set_inheritable(answer_fd, False)  # it came to us that way and is nothing for the guest
    lock = os.open(os.path.join(guest_dir, LOCK_FILE), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _answer(answer_fd, KEPT)
        return 0
    if any(os.path.exists(os.path.join(guest_dir, name)) for name in (KEEPER_FILE, EXIT_FILE)):
        _answer(answer_fd, KEPT)  # a run starts at most once, whatever became of it
        return 0
    Keeping(guest_dir).run(answer_fd)
    return 0


class Keeping:
    """One guest's life, from the keeper's side."""

    def __init__(self, guest_dir: str) -> None:
        self._guest_dir = guest_dir
        self._launch = Launch(guest_dir)
        self._cgroup = ""
        self._child = 0
        self._status: int | None = None  # wait status of the guest's first process
        self._why_ended = ""  # set when the keeper ends the guest by itself
        self._asked_to_leave = False
        self._limits = Limits(os.path.join(guest_dir, LIMITS_FILE))
        self._wakeup = _wake_on_child_exit()

    def run(self, answer_fd: int) -> None:
        become_subreaper()
        for signum in (signal.SIGHUP, signal.SIGINT):
            signal.signal(signum, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._leave)
        self._introduce()
        refusal = self._refusal()
        if refusal:
            self._record(None, refusal)
            _answer(answer_fd, REFUSED)
            return
        try:
            log = Log(os.path.join(self._guest_dir, LOG_FILE), self._launch.log_limit_bytes)
            self._child, output = run_guest(self._launch, self._cgroup)
        except OSError:
            self._record(None, NOT_STARTED)
            _answer(answer_fd, FAILED)
            raise
        _answer(answer_fd, STARTED)
        try:
            self._keep(output, log)
        finally:
            self._end_everything()
        log.drain(output)
        self._record(*self._verdict())

    def _introduce(self) -> None:
        """Say who keeps the guest before there is one: what cannot be found cannot be killed."""
        mark = os.urandom(16).hex()
        if self._launch.cgroup_parent:
            name = f"gpunion-{os.path.basename(self._guest_dir)}-{mark[:8]}"
            self._cgroup = cgroups.make(self._launch.cgroup_parent, name)
        if self._cgroup:
            cgroups.limit(self._cgroup, memory_bytes=self._launch.memory_bytes, cpus=self._launch.cpus)
        if not self._launch.arguments:
            self._launch.mark = mark  # in a sandbox the process namespace does better
        record: dict[str, object] = {
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "boot_id": boot_id(),
            "cgroup": self._cgroup,
            "mark": self._launch.mark,
        }
        write_json(os.path.join(self._guest_dir, KEEPER_FILE), record)

    def _refusal(self) -> str:
        """Why the guest must not start after all. Asked after the introduction: see owner_kill.kill_all."""
        state_dir = os.path.dirname(os.path.dirname(self._guest_dir))
        if killed_at_s(state_dir) is not None:
            return KILLED_BY_OWNER
        return _noted_reason(self._guest_dir)

    def _keep(self, output: int, log: Log) -> None:
        looked_s = 0.0
        sources = [output, self._wakeup]
        while self._status is None:
            ready, _, _ = select.select(sources, [], [], POLL_S)
            if output in ready and not log.copy(output):
                sources = [self._wakeup]
            if self._wakeup in ready:
                os.read(self._wakeup, READ_BYTES)
            self._reap()
            now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            if now_s - looked_s >= POLL_S:
                looked_s = now_s
                self._why_ended = LOST if self._asked_to_leave else self._limits.passed(now_s)
                if self._why_ended:
                    return

    def _end_everything(self) -> None:
        """The guest is over when its first process is: what it left behind goes too, to the last one."""
        pause_s = POLL_S / 16
        while self._reap():
            strike(self._guest_dir, keeper_too=False)
            if select.select([self._wakeup], [], [], pause_s)[0]:
                os.read(self._wakeup, READ_BYTES)
            pause_s = min(pause_s * 2, POLL_S)

    def _reap(self) -> bool:
        """Collect dead children; False when there are none left, dead or alive."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._child:
                self._status = status

    def _verdict(self) -> tuple[int, str]:
        code = KILLED_EXIT_CODE if self._status is None else os.waitstatus_to_exitcode(self._status)
        # Bubblewrap, like a shell, reports a signal's death as 128 + signal; we say it that way throughout.
        code = 128 - code if code < 0 else code
        if code == KILLED_EXIT_CODE:
            reason = self._why_ended or _noted_reason(self._guest_dir)
            if reason:
                return code, reason
            if cgroups.ran_out_of_memory(self._cgroup):
                return code, OUT_OF_MEMORY
        if 128 < code <= 128 + signal.NSIG:
            return code, SIGNALLED
        return code, EXITED

    def _record(self, code: int | None, reason: str) -> None:
        remove_cgroup(self._cgroup)
        write_json(os.path.join(self._guest_dir, EXIT_FILE), {"exit_code": code, "reason": reason})

    def _leave(self, signum: int, frame: object) -> None:
        self._asked_to_leave = True


class Limits:
    """The newest limits the agent left, read again when the file changes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._lease_until_s: float | None = time.clock_gettime(time.CLOCK_BOOTTIME) + FIRST_LEASE_S
        self._kill_at_s: float | None = None

    def passed(self, now_s: float) -> str:
        self._refresh()
        if self._kill_at_s is not None and now_s >= self._kill_at_s:
            return DEADLINE
        if self._lease_until_s is not None and now_s >= self._lease_until_s:
            return LEASE_ENDED
        return ""

    def _refresh(self) -> None:
        try:
            stat = os.stat(self._path)
            if (stat.st_ino, stat.st_mtime_ns) == self._seen:
                return
            record = read_json(self._path) or {}
            lease, kill = record["lease_until_s"], record["kill_at_s"]
            if lease is not None:
                self._lease_until_s = float(str(lease))
            self._kill_at_s = None if kill is None else float(str(kill))
            self._seen = (stat.st_ino, stat.st_mtime_ns)
        except (OSError, KeyError, ValueError):
            return  # absent or unreadable: what was promised last still holds


class Log:
    """The guest's output, up to a bound. The beginning is kept; what comes after is read and dropped."""

    def __init__(self, path: str, limit_bytes: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._left_bytes = limit_bytes
        self._limit_bytes = limit_bytes

    def copy(self, source: int) -> bool:
        """One read; False at the end."""
        try:
            data = os.read(source, READ_BYTES)
        except BlockingIOError:
            return True
        if data and self._left_bytes > 0:
            self._write(data[: self._left_bytes])
            self._left_bytes -= len(data)
            if self._left_bytes <= 0:
                self._write(
                    b"\n[gpunion: the log reached %d bytes; later output is dropped]\n" % self._limit_bytes
                )
        return bool(data)

    def drain(self, source: int) -> None:
        for _ in range(DRAIN_READS_MAX):
            if not select.select([source], [], [], 0)[0] or not self.copy(source):
                return

    def _write(self, data: bytes) -> None:
        try:
            os.write(self._file, data)
        except OSError:
            return  # a full disk costs the guest its log, not its life


def _noted_reason(guest_dir: str) -> str:
    return str((read_json(os.path.join(guest_dir, KILL_FILE)) or {}).get("reason", ""))


def _wake_on_child_exit() -> int:
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda signum, frame: None)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    return read_end


def _answer(descriptor: int, word: bytes) -> None:
    # The agent may have died meanwhile; the guest is kept all the same.
    with contextlib.suppress(BrokenPipeError):
        os.write(descriptor, word)
    os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
