"""From the keeper to the guest's first process: what happens between fork and exec."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import select
import signal
from collections.abc import Callable

from gpunion.adapters.runtimes.keeper import cgroups, users
from gpunion.adapters.runtimes.keeper.begin import COMMAND_NOT_RUN, die_with
from gpunion.adapters.runtimes.keeper.names import GATE_FD, LAUNCH_FILE, NOT_BEGUN_FD, SPARE_FD
from gpunion.files import read_json
from gpunion.owner_kill.guest import MARK_VARIABLE

PR_SET_CHILD_SUBREAPER = 36
BEGIN_LIMIT_S = 10.0  # making the namespaces takes some milliseconds

# Enough for any training job; without them a guest could exhaust what the host's own programs need.
OPEN_FILES_MAX = 65_536

_libc = ctypes.CDLL(None, use_errno=True)


class Launch:
    """The plan in launch.json: what to execute, with which environment and limits. See `confinement.Plan`."""

    def __init__(self, guest_dir: str) -> None:
        record = read_json(os.path.join(guest_dir, LAUNCH_FILE))
        if record is None:
            raise ValueError("launch.json is absent or damaged")
        self.argv = _words(record["argv"])
        self.arguments = _words(record["arguments"])  # for bubblewrap; none: run plainly
        self.sources = _words(record["sources"])
        self.bindings = _words(record["bindings"])
        self.closing = _words(record["closing"])
        self.user = int(str(record["user"]))  # 0: whoever starts it
        self.program_dir = str(record["program_dir"])
        environment = record["environment"]
        self.environment = dict(environment) if isinstance(environment, dict) else {}
        self.directory = str(record["directory"])
        self.cgroup_parent = str(record["cgroup_parent"])
        self.memory_bytes = int(str(record["memory_bytes"]))
        self.watched_memory_bytes = int(str(record["watched_memory_bytes"]))  # 0: the kernel holds it to it
        self.data_bytes = int(str(record["data_bytes"]))
        self.disk_bytes = int(str(record["disk_bytes"]))
        self.cpus = float(str(record["cpus"]))
        self.log_limit_bytes = int(str(record["log_limit_bytes"]))
        self.processes_max = int(str(record["processes_max"]))
        self.network = bool(record["network"])  # it waits at a gate until its door is there
        self.mark = ""


def become_subreaper() -> None:
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")


def run_guest(launch: Launch, cgroup: str, open_door: Callable[[int], None]) -> tuple[int, int]:
    """Start the guest; returns its first process and the descriptor its output comes from.

    `open_door` is given that process before any line of the guest's has run, where it is to have a network.
    """
    keeper = os.getpid()
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    begun, not_begun = os.pipe2(os.O_CLOEXEC)
    gate, opener = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            _become_guest(launch, cgroup, keeper, (write_end, not_begun, gate))
        except BaseException as error:
            os.write(write_end, f"gpunion: cannot run {launch.argv[0]!r}: {error}\n".encode())
        finally:
            os._exit(COMMAND_NOT_RUN)
    for descriptor in (write_end, not_begun, gate):
        os.close(descriptor)
    if launch.network:
        open_door(child)
        os.write(opener, b"\n")
    os.close(opener)
    # Until its own program runs, a signal for the guest would be lost on us or on bubblewrap.
    select.select([begun], [], [], BEGIN_LIMIT_S)
    os.close(begun)
    os.set_blocking(read_end, False)
    return child, read_end


def _become_guest(launch: Launch, cgroup: str, keeper: int, pipes: tuple[int, int, int]) -> None:
    output, not_begun, gate = pipes
    os.setsid()
    if cgroup:
        cgroups.enter(cgroup)
    _set_limits(launch.processes_max, launch.data_bytes)
    for signum in (
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGCHLD,
        signal.SIGPIPE,
        signal.SIGXFSZ,
    ):
        signal.signal(signum, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.umask(0o022)
    os.chdir(launch.directory)
    if launch.arguments:
        _enter_sandbox(launch, keeper, not_begun, gate)
    die_with(keeper)
    os.execvpe(launch.argv[0], launch.argv, {**launch.environment, MARK_VARIABLE: launch.mark})


def _enter_sandbox(launch: Launch, keeper: int, not_begun: int, gate: int) -> None:
    program, sources = launch.argv[0], launch.sources
    if launch.user:
        sources = users.set_stage([*launch.sources, *filter(None, [launch.program_dir])])
        if launch.program_dir:
            program = os.path.join(sources.pop(), os.path.basename(program))
        os.chdir("/")
        users.become(launch.user)
    die_with(keeper)
    # Away from the numbers they get: closed by the last step inside the sandbox, see `confinement`.
    not_begun, gate = (fcntl.fcntl(pipe, fcntl.F_DUPFD_CLOEXEC, SPARE_FD) for pipe in (not_begun, gate))
    os.dup2(not_begun, NOT_BEGUN_FD)
    if launch.network:
        os.dup2(gate, GATE_FD)
    bound = [
        word
        for option, source, target in zip(launch.bindings[::2], sources, launch.bindings[1::2], strict=True)
        for word in (option, source, target)
    ]
    # Through a descriptor and with an empty environment: a guest's variables show in no process list, and
    # none (think of LD_PRELOAD) acts on bubblewrap itself, which runs outside the sandbox.
    descriptor = os.memfd_create("arguments")
    words = [*launch.arguments, *bound, *launch.closing]
    os.write(descriptor, "".join(f"{word}\0" for word in words).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.set_inheritable(descriptor, True)
    os.execve(program, [program, "--args", str(descriptor), "--", *launch.argv[1:]], {})


def _words(value: object) -> list[str]:
    if not isinstance(value, list):
        raise ValueError("launch.json is damaged")
    return [str(word) for word in value]


def _set_limits(processes_max: int, data_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    wishes = [(resource.RLIMIT_NOFILE, OPEN_FILES_MAX), (resource.RLIMIT_NPROC, processes_max)]
    if data_bytes:
        wishes.append((resource.RLIMIT_DATA, data_bytes))
    for kind, wanted in wishes:
        _, hard = resource.getrlimit(kind)
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value))
