"""What a job took of its machine, beside what it asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUse:
    """Of one run, as its machine measured it. None: nobody could see it there."""

    for_s: float  # of its program, from its start to its end
    cpu_s: float  # of processor time
    memory_bytes: int  # the most at once
    gpu_utilisation: float | None = None  # mean of its GPUs while it had them, 0 to 1
    gpu_memory_bytes: int | None = None  # the most at once on one of them


def together(uses: Iterable[RunUse]) -> RunUse | None:
    """Of one job's runs: the times are added up, of the rest the most counts. None: nothing was measured."""
    known = list(uses)
    if not known:
        return None
    seen = [use for use in known if use.gpu_utilisation is not None and use.for_s]
    busy_s = sum(use.for_s * (use.gpu_utilisation or 0.0) for use in seen)
    return RunUse(
        for_s=sum(use.for_s for use in known),
        cpu_s=sum(use.cpu_s for use in known),
        memory_bytes=max(use.memory_bytes for use in known),
        gpu_utilisation=busy_s / sum(use.for_s for use in seen) if seen else None,
        gpu_memory_bytes=max(
            (use.gpu_memory_bytes for use in known if use.gpu_memory_bytes is not None), default=None
        ),
    )


def program_of(command: Sequence[str]) -> tuple[str, ...]:
    """What stays the same when its arguments change: what is started, and the script or module it runs."""
    for at, word in enumerate(command):
        if at and (command[at - 1] == "-m" or _names_a_script(word)):
            return _last_part(command[0]), _last_part(word)
    return tuple(_last_part(word) for word in command[:1])


def _names_a_script(word: str) -> bool:
    name, dot, suffix = _last_part(word).rpartition(".")
    return bool(name and dot) and suffix.isalpha() and len(suffix) <= 3 and not word.startswith("-")


def _last_part(word: str) -> str:
    return word.rstrip("/").rpartition("/")[2]
