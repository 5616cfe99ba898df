"""Environments of packages, one folder each, installed by the pip of the Python that guests see.

    <key>/site               what goes on Python's path
    <key>/size               how many bytes that is
    <key>/label              what it is called by whom it is told to, where it is
    tmp/                     on their way

Wheels only: installing one copies files and runs nothing of them, so pip may be the agent's user. A package
that would have to be built is refused, whatever the owner's configuration of pip or the job's list says. pip
is told what to install by a list of our own making, and where from by the owner's configuration or by the
job's own folders. Its process dies with the agent's: nothing of a guest's goes on without it. What it unpacks
is bounded by the quota of all environments: a wheel can be far smaller than what is in it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import secrets
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from gpunion.domain.lockfile import NO_INDEX, WHEEL_FOLDER_OPTIONS
from gpunion.ports.packages import Kept, PackagesFault, Wish
from gpunion.text import duration_in_words

# A few gigabytes over a slow line.
INSTALL_LIMIT_S = 1800.0
LOOK_S = 0.2
WEIGH_S, WEIGH_SHARE = (
    1.0,
    20,
)  # how often what was unpacked is weighed; at most a 20th of the time goes there
NO_ROOM_WORDS = ("no space left on device", "disk quota exceeded")
TAIL_LINES, TAIL_CHARS = 6, 1200
# Sets itself to die with its parent, and stands back behind the owner's own work.
PIP = (
    "import ctypes, os, runpy, signal, sys\n"
    "ctypes.CDLL(None).prctl(1, signal.SIGKILL)\n"
    "os.nice(10)\n"
    "os.umask(0o022)\n"
    "sys.argv[0] = 'pip'\n"
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)\n"
)
PASSED_ON = ("PATH", "HOME", "SSL_CERT_FILE", "SSL_CERT_DIR")
PASSED_ON_PREFIXES = ("PIP_",)
PROXIES = ("http_proxy", "https_proxy", "no_proxy")


class PipPackages:
    """Implements `ports.packages.Packages`."""

    def __init__(
        self, root: Path, *, limit_bytes: int, python: str = sys.executable, limit_s: float = INSTALL_LIMIT_S
    ) -> None:
        self._root = root
        self._limit_bytes = limit_bytes
        self._python = python
        self._limit_s = limit_s

    @property
    def base(self) -> str:
        libc = "-".join(filter(None, platform.libc_ver()))
        return f"{sys.implementation.name}-{platform.python_version()}-{sysconfig.get_platform()}-{libc}"

    def place(self, key: str) -> Path:
        return self._root / key / "site"

    def ready(self, key: str) -> bool:
        try:
            os.utime(self._root / key)
        except FileNotFoundError:
            return False
        return self.place(key).is_dir()

    def install(
        self,
        key: str,
        wish: Wish,
        cancelled: Callable[[], bool],
        told: Callable[[float], None] = lambda done: None,
    ) -> None:
        staging = self._root / "tmp" / f"{key}-{secrets.token_hex(4)}"
        try:
            (staging / "site").mkdir(mode=0o755, parents=True)
            self._run_pip(staging, wish, cancelled, told)
            self._weigh(staging)
            (staging / "size").write_text(str(_size_bytes(staging / "site")))
            if wish.label:
                (staging / "label").write_text(wish.label)
            shutil.rmtree(self._root / key, ignore_errors=True)
            os.rename(staging, self._root / key)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise PackagesFault(f"this machine's disk: {error.strerror or error}", no_room=full) from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def labelled(self) -> tuple[Kept, ...]:
        found = []
        for file in sorted(self._root.glob("*/label")):
            with contextlib.suppress(OSError):
                found.append(Kept(label=file.read_text(), size_bytes=_noted_size(file.parent)))
        return tuple(found)

    def trim(self, keep: Collection[str]) -> None:
        if not self._root.is_dir():
            return
        for leftover in (self._root / "tmp").glob("*"):
            if time.time() - leftover.stat().st_mtime > self._limit_s:
                shutil.rmtree(leftover, ignore_errors=True)  # of an agent that was killed meanwhile
        there = [path for path in self._root.iterdir() if path.name != "tmp" and path.is_dir()]
        sizes = {path: _noted_size(path) for path in there}
        total_bytes = sum(sizes.values())
        for path in sorted(there, key=lambda path: path.stat().st_mtime_ns):
            if total_bytes <= self._limit_bytes:
                return
            if path.name not in keep:
                shutil.rmtree(path, ignore_errors=True)
                total_bytes -= sizes[path]

    def _run_pip(
        self, staging: Path, wish: Wish, cancelled: Callable[[], bool], told: Callable[[float], None]
    ) -> None:
        listed, constraints = staging / "requirements.txt", staging / "constraints.txt"
        _write_lines(listed, wish.lockfile.requirements)
        if wish.lockfile.hashed:
            _write_lines(constraints, wish.lockfile.without_extras)
        said = staging / "said"
        with said.open("wb") as output:
            # A session of its own: whatever pip starts ends with it.
            process = subprocess.Popen(
                [self._python, "-P", "-c", PIP, *_words(staging, listed, constraints, wish)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=staging,
                env=_environment(os.environ, staging),
                start_new_session=True,
            )
            try:
                asked = len(wish.lockfile.requirements)
                code = self._wait(process, staging, cancelled, lambda: told(_done(staging, said, asked)))
            finally:
                _end(process)
        if code:
            words = _tail(said)
            raise PackagesFault(words, no_room=any(word in words.lower() for word in NO_ROOM_WORDS))

    def _wait(
        self,
        process: subprocess.Popen[bytes],
        staging: Path,
        cancelled: Callable[[], bool],
        tell: Callable[[], None],
    ) -> int:
        until_s = time.monotonic() + self._limit_s
        weigh_s = time.monotonic() + WEIGH_S
        while True:
            try:
                return process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                now_s = time.monotonic()
                if cancelled():
                    raise PackagesFault("the job was ended before its packages were here") from None
                if now_s > until_s:
                    raise PackagesFault(
                        f"pip was not done after {duration_in_words(self._limit_s)}"
                    ) from None
                if now_s > weigh_s:
                    self._weigh(staging)
                    tell()
                    weigh_s = time.monotonic() + max(WEIGH_S, WEIGH_SHARE * (time.monotonic() - now_s))

    def _weigh(self, staging: Path) -> None:
        if _size_bytes(staging) > self._limit_bytes:
            limit = self._limit_bytes
            raise PackagesFault(
                f"they take more than the {limit} bytes this machine keeps for packages", no_room=True
            )


def _done(staging: Path, said: Path, asked: int) -> float:
    """From 0 to 1, about: half for fetching all that was asked for, half for unpacking it. Sizes nobody knows
    beforehand, so packages are counted."""
    unpacked = sum(1 for _ in staging.glob("pip-target-*/lib*/python*/*.dist-info"))
    fetched = said.read_bytes().count(b"\n  Downloading ") + said.read_bytes().count(b"Processing ")
    return min(1.0, (min(fetched, asked) + min(unpacked, asked)) / (2 * max(1, asked)))


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _words(staging: Path, listed: Path, constraints: Path, wish: Wish) -> list[str]:
    words = ["install", "--target", str(staging / "site"), "--requirement", str(listed)]
    words += ["--only-binary", ":all:", "--no-input", "--no-cache-dir", "--progress-bar", "off"]
    words += ["--disable-pip-version-check", "--no-warn-script-location", "--root-user-action", "ignore"]
    for folder in wish.folders:
        words += [WHEEL_FOLDER_OPTIONS[1], str(folder)]
    if wish.lockfile.no_index:
        words.append(NO_INDEX)
    if wish.lockfile.hashed:
        words += ["--require-hashes", "--constraint", str(constraints)]
    return words


def _environment(own: Mapping[str, str], staging: Path) -> dict[str, str]:
    """The owner's configuration of pip, and nothing else of the agent's."""
    passed = {
        name: value
        for name, value in own.items()
        if name in PASSED_ON or name.lower() in PROXIES or name.startswith(PASSED_ON_PREFIXES)
    }
    return {**passed, "LANG": "C.UTF-8", "TMPDIR": str(staging), "PYTHONNOUSERSITE": "1"}


def _tail(said: Path) -> str:
    """What pip said last, its errors rather than its warnings where it told them apart."""
    lines = [line.strip() for line in said.read_text(encoding="utf-8", errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith(("WARNING", "[notice]"))]
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    return " ".join(errors[-TAIL_LINES:])[-TAIL_CHARS:] or "pip said nothing"


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def _size_bytes(folder: Path) -> int:
    """Also of a folder that pip is at work in, where files come and go."""
    total_bytes = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total_bytes += os.lstat(os.path.join(parent, name)).st_size
    return total_bytes


def _noted_size(place: Path) -> int:
    try:
        return int((place / "size").read_text())
    except (OSError, ValueError):
        return _size_bytes(place)
