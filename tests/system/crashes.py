"""A coordinator that dies at a planned commit, and is started again."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gpunion.cli.demo.campus import CampusTrouble
from tests.system.scene import LIMIT_S, Scene


@contextmanager
def crashing(scene: Scene, crash_at: str) -> Iterator[threading.Event]:
    """The coordinator with a planned crash, and somebody who starts it again when that came about."""
    try:
        scene.campus.start_coordinator(GPUNION_CRASH_AT_COMMIT=crash_at)
    except CampusTrouble:  # the agents were quicker to come back than we to see that it listens
        if scene.campus.coordinator.poll() != -signal.SIGKILL:
            raise
    crashed, over = threading.Event(), threading.Event()
    trouble: list[BaseException] = []

    def revive() -> None:
        while not over.is_set():
            if scene.campus.coordinator.poll() is not None:
                crashed.set()
                try:
                    scene.campus.start_coordinator()
                except BaseException as error:  # told to the test below
                    trouble.append(error)
                return
            time.sleep(0.02)

    reviver = threading.Thread(target=revive)
    reviver.start()
    try:
        yield crashed
    finally:
        over.set()
        reviver.join(LIMIT_S)
        assert not trouble, trouble
