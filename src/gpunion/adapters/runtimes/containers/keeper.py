"""Stays with one container from before its start until it is over: `python -m ... <guest_dir> <fd>`.

It has the engine make and start the container by the plan in launch.json, opens the guest's gate when it has
written down where to find it, copies the output to a bounded log, ends the container at the earlier time of
limits.json and writes exit.json last. It watches the container's first process itself: an engine that hangs,
restarts or is gone changes nothing about what is ended when. The guardian takes over if it is killed.
An engine without root may have no cgroup to give: the guest is then known by that first process, which ends
all others of its namespace with it, and held to its memory by its keeper.

One thread, no third-party import, no agent, no network.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

from gpunion.adapters.runtimes.containers.cgroup import (
    container_cgroup,
    killed_for_memory,
    out_of_memory_file,
)
from gpunion.adapters.runtimes.containers.container_command import (
    ContainerState,
    Engine,
    EngineGone,
    EngineTrouble,
)
from gpunion.adapters.runtimes.containers.entry import DOORS_DIR, GATE, OUTPUT
from gpunion.adapters.runtimes.containers.exit_reason import NOT_STARTED, Ending, verdict
from gpunion.adapters.runtimes.containers.orphan_reaper import watch_over
from gpunion.adapters.runtimes.keeper.begin import answer, begin, noted_reason, refusal
from gpunion.adapters.runtimes.keeper.limits import ExtraMemory, Limits
from gpunion.adapters.runtimes.keeper.names import (
    EXTRA_MEMORY_FILE,
    FAILED,
    GUEST_DIRS,
    LAUNCH_FILE,
    LOG_FILE,
    REFUSED,
    STARTED,
)
from gpunion.adapters.runtimes.keeper.output_log import Log
from gpunion.adapters.runtimes.keeper.resources.appetite import OUT_OF_MEMORY, Appetite
from gpunion.adapters.runtimes.keeper.resources.measured import MeasuredUse
from gpunion.files import read_json, write_json, write_json_over
from gpunion.owner_kill.guest import EXIT_FILE, KEEPER_FILE, LIMITS_FILE, members, strike
from gpunion.owner_kill.processes import boot_id, cgroup_pids, family, process_table, start_ticks

POLL_S = 0.05  # how late a limit may be noticed
GATE_LIMIT_S = 30.0  # from the engine's "started" to the container's first program standing at the gate
SHORT_PAUSE_S = 0.002
STRIKE_PAUSE_S = 0.01
ENGINE_PATIENCE_S = 15.0  # for an engine that restarts to say how the guest ended
ENGINE_PAUSE_S = 0.02
LOST = "lost"


def main(argv: list[str]) -> int:
    answer_fd = begin(argv)
    if answer_fd is not None:
        Keeping(argv[0]).run(answer_fd)
    return 0


class NotStarted(Exception):
    """Why there is no guest, in words for the one who wanted it."""


class Keeping:
    """One container's life, from the keeper's side."""

    def __init__(self, guest_dir: str) -> None:
        launch = read_json(os.path.join(guest_dir, LAUNCH_FILE))
        if launch is None or not isinstance(launch["create"], list):
            raise ValueError("launch.json is absent or damaged")
        self._guest_dir = guest_dir
        self._engine = Engine.of(launch["engine"])
        self._container = str(launch["container"])
        self._create = [str(word) for word in launch["create"]]
        self._log_limit_bytes = int(str(launch["log_limit_bytes"]))
        self._limits = Limits(os.path.join(guest_dir, LIMITS_FILE))
        self._memory_bytes = int(str(launch["memory_bytes"]))
        self._watched_memory_bytes = int(str(launch["watched_memory_bytes"]))
        self._disk_bytes = int(str(launch["disk_bytes"]))
        self._extra = ExtraMemory(os.path.join(guest_dir, EXTRA_MEMORY_FILE))
        self._network = bool(launch["network"])
        self._first_pid = self._first_ticks = 0
        self._asked_to_leave = False
        self._cgroup = ""
        self._memory_file = ""
        self._use: MeasuredUse | None = None
        self._first = -1  # a descriptor of the container's first process: readable when it is dead

    def run(self, answer_fd: int) -> None:
        for signum in (signal.SIGHUP, signal.SIGINT):
            signal.signal(signum, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._leave)
        self._introduce()
        watch_over(self._guest_dir, self._engine, self._container)
        why_not = refusal(self._guest_dir)
        if not why_not:
            try:
                output, log = self._start()
                why_not = refusal(self._guest_dir)
                if not why_not:
                    self._open_door()
                    self._open_gate()
            except (EngineTrouble, NotStarted, OSError) as trouble:
                why_not = refusal(self._guest_dir) or NOT_STARTED
                print(str(trouble).replace("\n", " "), file=sys.stderr, flush=True)
        if why_not:
            self._end_everything()
            self._record(None, why_not)
            answer(answer_fd, FAILED if why_not == NOT_STARTED else REFUSED)
            return
        answer(answer_fd, STARTED)
        self._use = MeasuredUse(self._processes, parents_it=False)
        why_ended = self._keep(output, log, self._use)
        # First of all: the engine removes the cgroup, and not every engine says it itself.
        out_of_memory = killed_for_memory(self._memory_file)
        self._end_everything()
        log.drain(output)
        self._record(*self._verdict(why_ended, out_of_memory, log))

    def _introduce(self) -> None:
        """Say who keeps the guest before there is one; and again where to find it before its gate opens."""
        record: dict[str, object] = {
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "boot_id": boot_id(),
            "cgroup": self._cgroup,
            "mark": "",
            "first_pid": self._first_pid,
            "first_ticks": self._first_ticks,
        }
        write_json(os.path.join(self._guest_dir, KEEPER_FILE), record)

    def _start(self) -> tuple[int, Log]:
        self._engine.call(*self._create)
        # For writing as well: it is never at its end, whoever has it open inside.
        output = os.open(self._door(OUTPUT), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        log = Log(os.path.join(self._guest_dir, LOG_FILE), self._log_limit_bytes)
        self._bring_up()
        state = self._engine.state_of(self._container)
        if not state.pid:
            raise NotStarted(state.error or f"its first program ended at once with {state.exit_code}")
        self._first, ticks = os.pidfd_open(state.pid), start_ticks(state.pid)
        if ticks is None:
            raise NotStarted("its first program ended at once")
        self._first_pid, self._first_ticks = state.pid, ticks
        self._cgroup = container_cgroup(state.pid, state.id)
        self._memory_file = out_of_memory_file(state.pid, state.id)
        self._introduce()
        return output, log

    def _bring_up(self) -> None:
        self._engine.call("start", self._container)

    def _open_door(self) -> None:
        """Behind a gate that is still shut: no line of the guest's runs before its doorman stands."""
        if self._network:
            from gpunion.adapters.runtimes.keeper.proxy_socket import open_door  # few guests have one

            open_door(self._first_pid, os.path.dirname(os.path.dirname(self._guest_dir)))

    def _open_gate(self) -> None:
        """Let the guest's program run, and wait until it does: a signal before that would be lost."""
        until_s = time.monotonic() + GATE_LIMIT_S
        gate = -1
        while gate < 0:
            try:
                gate = os.open(self._door(GATE), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:  # nobody stands there yet
                if self._is_over(SHORT_PAUSE_S):
                    raise NotStarted("it ended before it began; has the image a shell?") from error
                if time.monotonic() > until_s:
                    raise NotStarted("its first program never came to its gate") from error
        os.write(gate, b"\n")
        os.close(gate)
        while len(self._processes()) < 2 and time.monotonic() < until_s:
            if self._is_over(SHORT_PAUSE_S):
                return

    def _keep(self, output: int, log: Log, use: MeasuredUse) -> str:
        """Until its first process is dead, or a limit has passed: which one."""
        looked_s = 0.0
        appetite = self._appetite()
        while True:
            ready, _, _ = select.select([output, self._first], [], [], POLL_S)
            if output in ready:
                log.copy(output)
            if self._first in ready:
                return ""
            now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            if now_s - looked_s >= POLL_S:
                looked_s = now_s
                passed = LOST if self._asked_to_leave else self._limits.passed(now_s)
                appetite.extra_bytes = self._extra.bytes()
                use.look(now_s, self._cgroup, parked=bool(appetite.extra_bytes))
                passed = passed or appetite.passed(now_s)
                if passed:
                    return passed

    def _appetite(self) -> Appetite:
        """What an engine said it limits it cannot limit without a cgroup."""
        return Appetite(
            self._processes,
            [os.path.join(self._guest_dir, name) for name in GUEST_DIRS],
            memory_bytes=self._watched_memory_bytes if self._cgroup else self._memory_bytes,
            disk_bytes=self._disk_bytes,
        )

    def _processes(self) -> set[int]:
        if self._cgroup:
            return cgroup_pids(self._cgroup)
        return family((self._first_pid, self._first_ticks), process_table())

    def _end_everything(self) -> None:
        """Its namespace ends with its first process; the processes are asked whether that is so."""
        if self._first < 0:
            return  # no line of the guest's has run; the guardian removes what the engine has made
        while True:
            if not self._is_over(0):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            if not members(self._guest_dir):
                return
            strike(self._guest_dir, keeper_too=False)
            time.sleep(STRIKE_PAUSE_S)

    def _verdict(self, why_ended: str, out_of_memory: bool, log: Log) -> tuple[int | None, str]:
        state, engine_was_gone = self._last_state()
        ending = Ending(
            exit_code=None if state is None else state.exit_code,
            out_of_memory=out_of_memory or (state is not None and state.out_of_memory),
            engine_was_gone=engine_was_gone,
            why_ended=why_ended or noted_reason(self._guest_dir),
            asked_to_leave=self._asked_to_leave,
        )
        code, reason = verdict(ending)
        if reason == LOST and engine_was_gone:
            log.note(f"{self._engine.name} itself stopped, and this guest with it")
        return code, reason

    def _last_state(self) -> tuple[ContainerState | None, bool]:
        until_s = time.monotonic() + ENGINE_PATIENCE_S
        gone = False
        while time.monotonic() < until_s:
            try:
                state = self._engine.state_of(self._container)
                if not state.running:
                    return state, gone
            except EngineGone as trouble:
                print(str(trouble), file=sys.stderr, flush=True)
                gone = True
            except (EngineTrouble, ValueError) as trouble:
                print(str(trouble), file=sys.stderr, flush=True)
                return None, gone
            time.sleep(ENGINE_PAUSE_S)
        return None, True

    def _is_over(self, wait_s: float) -> bool:
        return bool(select.select([self._first], [], [], wait_s)[0])

    def _door(self, name: str) -> str:
        return os.path.join(self._guest_dir, DOORS_DIR, name)

    def _record(self, code: int | None, reason: str) -> None:
        # How it ended is told also on a full disk: its limits mean nothing any more.
        spare = os.path.join(self._guest_dir, LIMITS_FILE)
        over_bytes = self._memory_bytes if reason == OUT_OF_MEMORY else 0
        used = None if self._use is None else self._use.record(self._cgroup, at_least_bytes=over_bytes)
        verdict: dict[str, object] = {"exit_code": code, "reason": reason, "used": used}
        write_json_over(os.path.join(self._guest_dir, EXIT_FILE), verdict, spare)

    def _leave(self, signum: int, frame: object) -> None:
        self._asked_to_leave = True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
