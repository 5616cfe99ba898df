"""From the keeper to the guest's first process: what happens between fork and exec."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

from gpunion.adapters.sandbox import cgroups
from gpunion.adapters.sandbox.names import LAUNCH_FILE
from gpunion.owner_kill.guest import MARK_VARIABLE
from gpunion.owner_kill.records import read_json

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
COMMAND_NOT_RUN = 127  # a shell's word for it

# Enough for any training job; without them a guest could exhaust what the host's own programs need.
OPEN_FILES_MAX = 65_536
PROCESSES_MAX = cgroups.PROCESSES_MAX

_libc = ctypes.CDLL(None, use_errno=True)


class Launch:
    """The plan in launch.json: what to execute, with which environment and limits."""

    __slots__ = (
        "arguments",
        "argv",
        "cgroup_parent",
        "cpus",
        "directory",
        "environment",
        "log_limit_bytes",
        "mark",
        "memory_bytes",
    )

    def __init__(self, record: dict[str, object]) -> None:
        argv, arguments, environment = record["argv"], record["arguments"], record["environment"]
        if not isinstance(argv, list) or not isinstance(arguments, list) or not isinstance(environment, dict):
            raise ValueError("launch.json is damaged")
        self.argv = [str(word) for word in argv]
        self.arguments = [str(word) for word in arguments]  # for bubblewrap; none: run plainly
        self.environment = {str(name): str(value) for name, value in environment.items()}
        self.directory = str(record["directory"])
        self.cgroup_parent = str(record["cgroup_parent"])
        self.memory_bytes = int(str(record["memory_bytes"]))
        self.cpus = float(str(record["cpus"]))
        self.log_limit_bytes = int(str(record["log_limit_bytes"]))
        self.mark = ""

    @staticmethod
    def read(guest_dir: str) -> Launch:
        record = read_json(os.path.join(guest_dir, LAUNCH_FILE))
        if record is None:
            raise ValueError("launch.json is absent or damaged")
        return Launch(record)


def become_subreaper() -> None:
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")


def run_guest(launch: Launch, cgroup: str) -> tuple[int, int]:
    """Start the guest; returns its first process and the descriptor its output comes from."""
    keeper = os.getpid()
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            _become_guest(launch, cgroup, keeper, write_end)
        except BaseException as error:
            os.write(write_end, f"gpunion: cannot run {launch.argv[0]!r}: {error}\n".encode())
        finally:
            os._exit(COMMAND_NOT_RUN)
    os.close(write_end)
    os.set_blocking(read_end, False)
    return child, read_end


def _become_guest(launch: Launch, cgroup: str, keeper: int, output: int) -> None:
    os.setsid()
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != keeper:  # it died before the line above could matter
        os._exit(COMMAND_NOT_RUN)
    if cgroup:
        cgroups.enter(cgroup)
    _set_limits()
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
        # Through a descriptor and with an empty environment: a guest's variables show in no process list,
        # and none (think of LD_PRELOAD) acts on bubblewrap itself, which runs outside the sandbox.
        descriptor = os.memfd_create("arguments")
        os.write(descriptor, "".join(f"{word}\0" for word in launch.arguments).encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.set_inheritable(descriptor, True)
        os.execve(launch.argv[0], [launch.argv[0], "--args", str(descriptor), "--", *launch.argv[1:]], {})
    environment = {**launch.environment, MARK_VARIABLE: launch.mark}
    os.execvpe(launch.argv[0], launch.argv, environment)


def _set_limits() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, wanted in ((resource.RLIMIT_NOFILE, OPEN_FILES_MAX), (resource.RLIMIT_NPROC, PROCESSES_MAX)):
        _, hard = resource.getrlimit(kind)
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value))
