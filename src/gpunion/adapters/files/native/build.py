"""Builds the C of this folder: `python -m gpunion.adapters.files.native`, where the package can be changed.

Only what Python brings is used here, and nothing else of this package: whoever makes a wheel runs this too.
"""

from __future__ import annotations

import os
import platform
import secrets
import shlex
import shutil
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path

FOLDER = Path(__file__).parent
# Of several machines' each finds its own: a coordinator hands its package on to whoever joins.
LIBRARY = FOLDER / f"gpunion-{platform.machine()}.so"
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden")
LIMIT_S = 120


class NotBuilt(Exception):
    """Why, in a line."""


def source() -> int:
    """What tells one state of the C from another."""
    files = sorted((*FOLDER.glob("*.c"), *FOLDER.glob("*.h")))
    return zlib.crc32(b"\0".join(file.read_bytes() for file in files))


def build(library: Path = LIBRARY, *more: str) -> None:
    """NotBuilt where there is no compiler, or none that takes it."""
    named, *words = shlex.split(os.environ.get("CC", "")) or [""]
    compiler = shutil.which(named) if named else next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NotBuilt(f"there is no C compiler here ({named or ', '.join(COMPILERS)})")
    made = library.with_name(f".{library.name}.{secrets.token_hex(4)}")
    names = [str(file) for file in sorted(FOLDER.glob("*.c"))]
    command = [compiler, *words, *FLAGS, *more, f"-DGPUNION_SOURCE={source()}u", "-o", str(made), *names]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
            raise NotBuilt(f"{compiler} does not take it: {lines[0]}")
        with open(made, "rb") as file:
            os.fsync(file.fileno())  # a part of it would end whoever loads it
        os.replace(made, library)  # whoever has loaded the one before keeps that
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotBuilt(f"{compiler} cannot build {library}: {error}") from error
    finally:
        with suppress(OSError):
            made.unlink()


def main() -> int:
    """Not having it is no fault: the same bytes come from numpy."""
    try:
        build()
    except NotBuilt as why:
        print(f"native code: not built, so restores take longer: {why}", file=sys.stderr)
        return 1
    print(f"native code: built, {LIBRARY}")
    return 0
