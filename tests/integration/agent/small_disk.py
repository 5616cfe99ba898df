"""A file system of a test's own that is really full when it is told to be, and has room again at once.

It lies in memory and has no more of it than what is written there: being full is a matter of its size, which
is changed under those who write.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from tests.integration.agent.campus import PATIENCE_S


class SmallDisk:
    def __init__(self, folder: Path, size_bytes: int) -> None:
        self.folder = folder
        self.size_bytes = size_bytes
        folder.mkdir()
        _mount("-t", "tmpfs", "-o", f"size={size_bytes},mode=755", "gpunion-test", str(folder))

    def fill(self) -> None:
        """From now on it takes nothing more; what is removed makes room, until this is called again."""
        until_s = time.monotonic() + PATIENCE_S
        while self.free_bytes:
            assert time.monotonic() < until_s, "it cannot be made full"
            found = os.statvfs(self.folder)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            # Refused where somebody wrote in between: it would be smaller than what it holds.
            _mount("-o", f"remount,size={used}", str(self.folder), may_fail=True)

    def make_room(self) -> None:
        _mount("-o", f"remount,size={self.size_bytes}", str(self.folder))

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def remove(self) -> None:
        """Whoever still has a file open there keeps nobody from unmounting it."""
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)


def _mount(*words: str, may_fail: bool = False) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True)
    assert may_fail or done.returncode == 0, done.stderr
