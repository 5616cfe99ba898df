"""What guests printed, read on the host while they live.

Each log is opened as soon as it is there and read to its end through the open file: the agent removes a
guest's folder when its story is over, and what was printed last is what these tests are about.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import BinaryIO

LOOK_S = 0.02


class Trail:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[Path, BinaryIO] = {}
        self._texts: dict[Path, bytes] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def beats(self, job_id: str) -> list[tuple[int, float, int]]:
        """(epoch, the machine's clock, step) of every beat seen of a job."""
        self._look()
        with self._lock:
            texts = [text for path, text in self._texts.items() if path.parent.name.startswith(f"{job_id}-e")]
        found = []
        for text in texts:
            for line in text.decode(errors="replace").splitlines():
                words = line.split()
                if len(words) == 4 and words[0] == "beat":
                    found.append((int(words[1]), float(words[2]), int(words[3])))
        return sorted(found)

    def close(self) -> None:
        self._over.set()
        self._reader.join()
        for file in self._open.values():
            file.close()

    def _read(self) -> None:
        while not self._over.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        with self._lock:
            for path in self._root.glob("*/guests/*/log.txt"):
                if path not in self._open:
                    try:
                        self._open[path] = path.open("rb")
                    except FileNotFoundError:
                        continue
            for path, file in self._open.items():
                self._texts[path] = self._texts.get(path, b"") + file.read()
