"""Stays with one guest from before its start until nothing of it lives: `python -m ... <guest_dir> <fd>`.

It is started by the runtime, detached, and outlives the agent. It starts the guest's program by the plan in
launch.json, copies its output to a bounded log, ends the whole guest at the earlier time of limits.json, and
writes exit.json last. It is a subreaper: a process the guest orphans becomes its child, so "no children"
means "nothing lives". When it is killed itself, the guest's first process dies with it.

One thread, no third-party import, no agent, no network: there is little that can go wrong here.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

from gpunion.adapters.runtimes.keeper import cgroups
from gpunion.adapters.runtimes.keeper.begin import answer, begin, noted_reason, refusal
from gpunion.adapters.runtimes.keeper.limits import ExtraMemory, Limits
from gpunion.adapters.runtimes.keeper.names import (
    EXTRA_MEMORY_FILE,
    FAILED,
    GUEST_DIRS,
    LOG_FILE,
    REFUSED,
    STARTED,
)
from gpunion.adapters.runtimes.keeper.output_log import READ_BYTES, Log
from gpunion.adapters.runtimes.keeper.resources.appetite import OUT_OF_MEMORY, Appetite
from gpunion.adapters.runtimes.keeper.resources.measured import MeasuredUse
from gpunion.adapters.runtimes.sandbox.child import Launch, become_subreaper, run_guest
from gpunion.files import write_json, write_json_over
from gpunion.owner_kill.guest import (
    EXIT_FILE,
    KEEPER_FILE,
    KILLED_EXIT_CODE,
    LIMITS_FILE,
    strike,
)
from gpunion.owner_kill.processes import (
    boot_id,
    descendants,
    process_table,
    remove_cgroup,
    start_ticks,
)

POLL_S = 0.1  # how late a limit may be noticed

# The names of ports.runtime.ExitReason, not imported: its dataclasses would triple the time to start.
EXITED, SIGNALLED = "exited", "signalled"
LOST, NOT_STARTED = "lost", "not_started"
WELL = (0, 85)  # finished, or saved and to be run again


def main(argv: list[str]) -> int:
    answer_fd = begin(argv)
    if answer_fd is not None:
        Keeping(argv[0]).run(answer_fd)
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
        self._extra = ExtraMemory(os.path.join(guest_dir, EXTRA_MEMORY_FILE))
        self._appetite = Appetite(
            self._members,
            [os.path.join(guest_dir, name) for name in GUEST_DIRS],
            memory_bytes=self._launch.watched_memory_bytes,
            disk_bytes=self._launch.disk_bytes,
        )
        self._use = MeasuredUse(self._members, parents_it=True)
        self._wakeup = _wake_on_child_exit()

    def run(self, answer_fd: int) -> None:
        become_subreaper()
        for signum in (signal.SIGHUP, signal.SIGINT):
            signal.signal(signum, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._leave)
        self._introduce()
        why_not = refusal(self._guest_dir)
        if why_not:
            self._record(None, why_not)
            answer(answer_fd, REFUSED)
            return
        try:
            log = Log(os.path.join(self._guest_dir, LOG_FILE), self._launch.log_limit_bytes)
            self._child, output = run_guest(self._launch, self._cgroup, self._open_door)
        except OSError as error:
            self._end_everything()
            self._record(None, NOT_STARTED)
            print(error, file=sys.stderr, flush=True)
            answer(answer_fd, FAILED)
            return
        answer(answer_fd, STARTED)
        try:
            self._keep(output, log)
        finally:
            self._end_everything()
        log.drain(output)
        self._record(*self._verdict())

    def _open_door(self, child: int) -> None:
        from gpunion.adapters.runtimes.keeper.proxy_socket import (  # few guests have one
            first_inside,
            open_door,
        )

        open_door(first_inside(child), os.path.dirname(os.path.dirname(self._guest_dir)))

    def _introduce(self) -> None:
        """Say who keeps the guest before there is one: what cannot be found cannot be killed."""
        mark = os.urandom(16).hex()
        if self._launch.cgroup_parent:
            name = f"gpunion-{os.path.basename(self._guest_dir)}-{mark[:8]}"
            self._cgroup = cgroups.make(self._launch.cgroup_parent, name)
        if self._cgroup:
            cgroups.limit(
                self._cgroup,
                memory_bytes=self._launch.memory_bytes,
                cpus=self._launch.cpus,
                processes_max=self._launch.processes_max,
            )
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
                self._appetite.extra_bytes = self._extra.bytes()
                self._use.look(now_s, self._cgroup, parked=bool(self._appetite.extra_bytes))
                self._why_ended = self._why_ended or self._appetite.passed(now_s)
                if self._why_ended:
                    return

    def _members(self) -> set[int]:
        if self._cgroup:
            return cgroups.processes(self._cgroup)
        return descendants(os.getpid(), process_table())

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
            reason = self._why_ended or noted_reason(self._guest_dir)
            if reason:
                return code, reason
            if cgroups.ran_out_of_memory(self._cgroup):
                return code, OUT_OF_MEMORY
        if self._asked_to_leave and code not in WELL:
            return code, LOST  # whoever shuts the machine down tells both, and the guest may be the quicker
        if 128 < code <= 128 + signal.NSIG:
            return code, SIGNALLED
        return code, EXITED

    def _record(self, code: int | None, reason: str) -> None:
        over_bytes = self._launch.memory_bytes if reason == OUT_OF_MEMORY else 0
        used = None if code is None else self._use.record(self._cgroup, at_least_bytes=over_bytes)
        remove_cgroup(self._cgroup)
        # How it ended is told also on a full disk: its limits mean nothing any more.
        spare = os.path.join(self._guest_dir, LIMITS_FILE)
        verdict: dict[str, object] = {"exit_code": code, "reason": reason, "used": used}
        write_json_over(os.path.join(self._guest_dir, EXIT_FILE), verdict, spare)

    def _leave(self, signum: int, frame: object) -> None:
        self._asked_to_leave = True


def _wake_on_child_exit() -> int:
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda signum, frame: None)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    return read_end


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
