"""What a piece of a job that runs in windows was like, as its program and the driver say.

Nothing is believed that the time it was here does not allow: a program that lies cuts its own next piece
badly, and hurts nobody else.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from gpunion.agent.dependencies import ControlFiles, World
from gpunion.agent.metrics.guest_gpus import GpuUse
from gpunion.agent.program.messages import PIECE_FILE
from gpunion.agent.run_records.notes import RunNote
from gpunion.domain.jobs.profile import Seen
from gpunion.domain.jobs.window import Subjob
from gpunion.limits import MOMENT_MAX_S, SIZE_MAX_BYTES, STEP_MAX, STEP_MIN_S, finite

# A driver is asked now and then: what a program had in between was a little more.
BETWEEN_LOOKS = 1.1

log = structlog.get_logger()


def variables_of(subjob: Subjob | None) -> dict[str, str]:
    """What its program is told of its windows from the beginning; nothing where it runs in none."""
    if subjob is None:
        return {}
    told = {"GPUNION_WINDOWS": "1", "GPUNION_SAFE_EVERY": str(subjob.safe_every)}
    if subjob.limit_bytes:
        told["GPUNION_GPU_MEMORY_BYTES"] = str(subjob.limit_bytes)
    return told


def piece_of(world: World, note: RunNote, now_unix_s: Callable[[], float] = time.time) -> Seen | None:
    """Reads a small file: blocks. None: its job does not run in windows, and nothing is told of it.

    It never raises. The end of a guest is told after this, and an agent that starts asks it of every guest
    that has ended meanwhile: what a program wrote must keep neither from happening."""
    if not note.in_windows:
        return None
    here_s = min(MOMENT_MAX_S, max(0.0, now_unix_s() - note.since_unix_s))
    try:
        return seen_of(world.control, note, here_s, world.gpu_use(note.run_id))
    except Exception as trouble:
        log.error("piece_not_read", run=note.run_id, trouble=repr(trouble))
        return None


def seen_of(control: ControlFiles, note: RunNote, here_s: float, gpus: GpuUse | None) -> Seen:
    """`here_s`: so long it was on this machine."""
    said = control.read_json(note.paths.control_dir, PIECE_FILE)
    driver_bytes = 0 if gpus is None else gpus.memory_bytes or 0
    if said is None:
        seconds = int(here_s) if note.counts_seconds else 0
        return Seen(
            steps=seconds,
            step_s=1.0 if seconds else 0.0,
            worst_step_s=1.0 if seconds else 0.0,
            peak_bytes=_bytes(BETWEEN_LOOKS * driver_bytes),
        )
    step_s = _seconds(said.get("step_s"), here_s)
    timed = step_s >= STEP_MIN_S
    steps = min(_count(said.get("steps")), int(here_s / step_s)) if timed else 0
    return Seen(
        steps=steps,
        step_s=step_s if steps else 0.0,
        step_sd_s=_seconds(said.get("step_sd_s"), here_s) if steps else 0.0,
        worst_step_s=_seconds(said.get("worst_step_s"), here_s) if steps else 0.0,
        begin_s=_seconds_or_none(said.get("begin_s"), here_s),
        save_s=_seconds_or_none(said.get("save_s"), here_s),
        peak_bytes=max(_bytes(said.get("peak_bytes")), _bytes(driver_bytes)),
        short_of_memory=said.get("short_of_memory") is True,
    )


def _count(value: object) -> int:
    return int(min(max(0.0, finite(value) or 0.0), float(STEP_MAX)))


def _bytes(value: object) -> int:
    return int(min(max(0.0, finite(value) or 0.0), float(SIZE_MAX_BYTES)))


def _seconds(value: object, most_s: float) -> float:
    return min(max(0.0, finite(value) or 0.0), most_s)


def _seconds_or_none(value: object, most_s: float) -> float | None:
    return None if finite(value) is None else _seconds(value, most_s)
