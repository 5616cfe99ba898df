"""What a job used beside what it asked for, in words, and what to ask for the next time."""

from __future__ import annotations

import math

from gpunion.cli.campus import Json
from gpunion.cli.quantities import shown_size
from gpunion.domain.resources import GIB
from gpunion.text import counted

MIB = 1024**2
# A program takes a little more than the last time, and never exactly as much.
ROOM = 1.25
LEAST_BYTES = 256 * MIB
# More than this of what was asked for lay idle: somebody else could have had it.
IDLE_SHARE = 0.5
# Less room than this was left: a run a little larger ends for want of it.
SCARCE_SHARE = 0.9
IDLE_GPU = 0.05


def used_in_words(used: Json, asked: Json) -> str:
    """Of a job that is over; `asked`: as `resources` of a job."""
    parts = [
        f"{shown_size(used['memory_bytes'])} of {shown_size(asked['memory_bytes'])} memory",
        f"{used['cpus']:.1f} of {counted(float(asked['cpus']), 'CPU')} on average",
    ]
    if used["gpu_utilisation"] is not None:
        gpus = counted(asked["gpus"], "GPU")
        parts.append(f"{gpus} {used['gpu_utilisation']:.0%} busy")
    if used["gpu_memory_bytes"] is not None:
        of = f" of {shown_size(asked['vram_bytes'])}" if asked["vram_bytes"] else ""
        parts.append(f"{shown_size(used['gpu_memory_bytes'])}{of} GPU memory")
    return ", ".join(parts)


def suggestion(used: Json, asked: Json) -> str:
    """Flags that would do, where they differ from what was asked for by much; else nothing."""
    flags = [
        _size_flag("--memory", used["memory_bytes"], asked["memory_bytes"]),
        _cpus_flag(used, asked),
        _size_flag("--vram", used["gpu_memory_bytes"], asked["vram_bytes"]),
    ]
    return " ".join(filter(None, flags))


def before_in_words(used: Json, asked: Json) -> str:
    """For whoever hands in the same program again; nothing where they ask for what it takes."""
    better = suggestion(used, asked)
    idle = _idle_gpus(used, asked)
    if not better and not idle:
        return ""
    times = "The last time" if used["jobs"] == 1 else f"The last {used['jobs']} times, at most,"
    said = f"{times} this program used {used_in_words(used, asked)}."
    if better:
        said += f" Next: {better} would do."
    return said + idle


def _size_flag(flag: str, used_bytes: int | None, asked_bytes: int) -> str:
    if used_bytes is None or not asked_bytes:
        return ""  # nobody saw it, or nothing was asked for
    fitting = _rounded_up(max(LEAST_BYTES, used_bytes * ROOM))
    scarce, idle = used_bytes > SCARCE_SHARE * asked_bytes, fitting <= IDLE_SHARE * asked_bytes
    return f"{flag} {_written(fitting)}" if scarce or idle else ""


def _cpus_flag(used: Json, asked: Json) -> str:
    fitting = max(1, math.ceil(used["cpus"] * ROOM))
    idle = fitting <= IDLE_SHARE * asked["cpus"]
    return f"--cpus {fitting}" if idle else ""


def _idle_gpus(used: Json, asked: Json) -> str:
    busy = used["gpu_utilisation"]
    if busy is None or busy >= IDLE_GPU or not asked["gpus"]:
        return ""
    return " Its GPU did next to nothing: does it use it at all? If not: --gpus 0."


def _rounded_up(size: float) -> int:
    """To what somebody would write: quarters of a GiB, from 4 GiB on whole ones."""
    unit = GIB if size > 4 * GIB else LEAST_BYTES
    return math.ceil(size / unit) * unit


def _written(size: int) -> str:
    return f"{size // GIB}GiB" if size % GIB == 0 else f"{size // MIB}MiB"
