"""Finds a bubblewrap that works here, for guests as they will run; or says exactly why there is none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from gpunion.adapters.runtimes.keeper import users

GUEST_ID = 1000  # the guest's user inside; outside it is the agent's
PROBE_LIMIT_S = 10.0
MEMORY_FILES_MAX_BYTES = 1024**3
TEMPORARY_FILES = (("/tmp", MEMORY_FILES_MAX_BYTES),)  # inside; it lives in the host's memory
WORDS_MAX = 300  # of bubblewrap's complaint that are passed on
NOT_PROBED = 126

PROGRAM = "bwrap"
SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
SYSTEM_PLACES = ("/usr/", "/bin/")  # every user reaches a program there
SYSTEM_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# The loader, names and time zones. Not /etc as a whole: it holds the host's secrets.
SYSTEM_SETTINGS = (
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "nsswitch.conf",
    "ssl/certs",
    "ssl/openssl.cnf",
    "magic",
    "mime.types",
)

INSTALL = "sudo apt install bubblewrap; or, without installing: tools/portable-bwrap DIR, and DIR into PATH"
ALLOW_NAMESPACES = "allow user namespaces, on Debian: sudo sysctl -w kernel.unprivileged_userns_clone=1"
ALLOW_PROFILE = "on Ubuntu 24.04: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubblewrap:
    """A bwrap that was seen working on this machine."""

    program: str
    options: tuple[str, ...]  # those of this version that we use when they are there
    own_user: bool  # guests get a user of their own outside too, since the agent is root

    @property
    def folder(self) -> str:
        """What has to be put on the stage for the guest's user to reach the program; "": nothing."""
        if not self.own_user or self.program.startswith(SYSTEM_PLACES):
            return ""
        return os.path.dirname(self.program)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoBubblewrap:
    """Why guests cannot be shut in here, and what mends it."""

    why: str
    mend: str


def find_bubblewrap(
    path: str | None = None, system_path: tuple[str, ...] = SYSTEM_PATH
) -> Bubblewrap | NoBubblewrap:
    """The first bwrap of PATH, then of the system, that works here.

    None does when this system does not let it make namespaces, and for a root that cannot give its guests
    another user (see `stage`): guests could still touch this host then.
    """
    asked = os.environ.get("PATH", "") if path is None else path
    programs = _programs([*asked.split(os.pathsep), *system_path])
    if not programs:
        return NoBubblewrap(why="there is no bwrap in PATH", mend=INSTALL)
    lacking = users.lacking() if os.geteuid() == 0 else ()
    if lacking:
        return NoBubblewrap(
            why="this root may not give its guests another user and would shut them in as root: it lacks "
            + ", ".join(f"CAP_{name.upper()}" for name in lacking),
            mend="run the agent as an ordinary user, or outside this container",
        )
    found = [_tried(program) for program in programs]
    working = next((one for one in found if isinstance(one, Bubblewrap)), None)
    return working or found[0]


def isolation(options: tuple[str, ...], memory_bytes: int = 0) -> list[str]:
    """`memory_bytes`: what the guest may have; its files in shared memory may have no more."""
    words = ["--unshare-all", "--unshare-user", "--uid", str(GUEST_ID), "--gid", str(GUEST_ID)]
    words += ["--hostname", "gpunion", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if "--disable-userns" in options:
        words.append("--disable-userns")
    words += ["--proc", "/proc", "--dev", "/dev"]
    for place, size_bytes in (("/dev/shm", memory_bytes or MEMORY_FILES_MAX_BYTES), *TEMPORARY_FILES):
        words += ["--size", str(size_bytes)] if "--size" in options else []
        words += ["--tmpfs", place]
    return words


def system() -> list[str]:
    words = ["--ro-bind", "/usr", "/usr"]
    for name in SYSTEM_LINKS:
        path = f"/{name}"
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    for name in SYSTEM_SETTINGS:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return words


def staged(program: str, places: list[str]) -> str:
    """The program as the guest's user reaches it, its folder being the last thing put on the stage."""
    return os.path.join(places[-1], os.path.basename(program))


def _programs(folders: list[str]) -> list[str]:
    """Absolute places only: what lies where a command happens to be given is not the owner's choice."""
    candidates = (os.path.join(folder, PROGRAM) for folder in folders if os.path.isabs(folder))
    fit = (path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK))
    return list(dict.fromkeys(os.path.realpath(path) for path in fit))


def _tried(program: str) -> Bubblewrap | NoBubblewrap:
    known, trouble = _run([program, "--help"])
    if trouble:
        return NoBubblewrap(why=f"{program} does not run: {trouble}", mend=INSTALL)
    options = tuple(option for option in ("--disable-userns", "--size") if option in known)
    found = Bubblewrap(program=program, options=options, own_user=os.geteuid() == 0)
    words = [*isolation(options), *system(), "--", "/usr/bin/true"]
    if not found.own_user:
        _, trouble = _run([program, *words])
    elif found.folder:
        _, trouble = _run([staged(program, [f"{users.STAGE}/0"]), *words], lambda: _step_on([found.folder]))
    else:
        _, trouble = _run([program, *words], lambda: _step_on([]))
    return found if not trouble else _explained(found, trouble)


def _explained(found: Bubblewrap, trouble: str) -> NoBubblewrap:
    whom = f" for the guests' user {users.SHARED_GUEST_ID}" if found.own_user else ""
    why = f"{found.program} does not work{whom}: {trouble}"
    if found.folder:
        return NoBubblewrap(
            why=f"{why} (only its folder {found.folder} is there for that user)",
            mend="tools/portable-bwrap DIR makes one that works from any folder; put DIR into PATH",
        )
    return NoBubblewrap(why=why, mend=ALLOW_PROFILE if "uid map" in trouble else ALLOW_NAMESPACES)


def _step_on(folders: list[str]) -> None:
    """Between fork and exec: become what a guest is before bubblewrap runs."""
    try:
        users.set_stage(folders)
        os.chdir("/")
        users.become(users.SHARED_GUEST_ID)
    except OSError as error:
        os.write(2, f"{error.strerror or error}\n".encode())
        os._exit(NOT_PROBED)


def _run(command: list[str], first: Callable[[], None] | None = None) -> tuple[str, str]:
    """What it said and, when it failed, why."""
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            timeout=PROBE_LIMIT_S,
            text=True,
            errors="replace",
            env={},
            cwd="/",
            check=False,
            preexec_fn=first,  # no other thread runs where a runtime is opened
        )
    except (OSError, subprocess.SubprocessError) as error:
        return "", str(error)
    said = answer.stdout + answer.stderr
    if answer.returncode == 0:
        return said, ""
    return said, said.strip()[-WORDS_MAX:] or f"it ended with {answer.returncode}"
