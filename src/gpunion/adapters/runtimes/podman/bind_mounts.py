"""Makes what is bound into a container reachable for a user namespace that is restored.

CRIU binds from inside the namespace, where the host's root is nobody: it cannot pass a directory that only
root may enter, and guests live in such directories. So for the moment of a restore everything is bound once
more under a stage that anybody may pass. A container that has started needs its sources no more.
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import hashlib
import io
import os
from collections.abc import Iterator

STAGES = "/run"  # anybody may pass it, and a reboot clears it
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 4096, 16384, 1 << 18, 2
SOURCE = "source="

_libc = ctypes.CDLL(None, use_errno=True)


def stage_of(guest_dir: str) -> str:
    return f"{STAGES}/gpunion-stage-{hashlib.sha256(guest_dir.encode()).hexdigest()[:16]}"


def restaged(words: list[str], stage: str) -> tuple[list[str], list[str]]:
    """`create` words with every bound source moved to the stage, and those sources in order."""
    moved: list[str] = []
    sources: list[str] = []
    options = words.index("--entrypoint")  # the last of them: what follows is the guest's own
    for number, word in enumerate(words):
        if number < options and words[number - 1] == "--mount" and SOURCE in word:
            fields = next(csv.reader([word]))
            place = next(place for place, field in enumerate(fields) if field.startswith(SOURCE))
            sources.append(fields[place].removeprefix(SOURCE))
            fields[place] = f"{SOURCE}{stage}/{len(sources) - 1}"
            line = io.StringIO()
            csv.writer(line, lineterminator="").writerow(fields)
            word = line.getvalue()
        moved.append(word)
    return moved, sources


@contextlib.contextmanager
def staged(stage: str, sources: list[str]) -> Iterator[None]:
    clear(stage)
    os.mkdir(stage, 0o711)
    os.chmod(stage, 0o711)
    try:
        _mount("stage", stage, "tmpfs", 0, "mode=0711")
        _mount(None, stage, None, MS_PRIVATE)  # nobody else's mount namespace gets to see it
        for number, source in enumerate(sources):
            place = f"{stage}/{number}"
            if os.path.isdir(source):
                os.mkdir(place)
            else:
                os.close(os.open(place, os.O_WRONLY | os.O_CREAT, 0o644))
            _mount(source, place, None, MS_BIND | MS_REC)
        yield
    finally:
        clear(stage)


def clear(stage: str) -> None:
    """Also what a keeper left that was killed in the middle."""
    while _libc.umount2(stage.encode(), MNT_DETACH) == 0:
        continue
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(stage)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    data = None if options is None else options.encode()
    if _libc.mount(*words, ctypes.c_ulong(flags), data) != 0:
        raise OSError(ctypes.get_errno(), f"cannot bind {source} for a restore")
