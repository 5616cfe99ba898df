"""Durations and sizes: as people type them, and as they like to read them."""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from gpunion.text import duration_in_words, size_in_words
from gpunion.tunnel.targets import PORT_MAX

DURATION_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
SIZE_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
# What the coordinator takes at most; also keeps typing errors from becoming a database's trouble.
DURATION_MAX_S = 366 * 86400.0
SIZE_MAX_BYTES = 2**50

_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")
_SIZE = re.compile(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]{0,3})\s*")


def duration_s(text: str) -> float:
    """Seconds from '90', '10s', '5m' or '1h30m'. Made for argparse: a mistake says what would be right."""
    word = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", word):
        seconds = float(word)
    elif re.fullmatch(rf"(?:{_PART.pattern}\s*)+", word):
        seconds = sum(float(part[1]) * DURATION_UNITS_S[part[2]] for part in _PART.finditer(word))
    else:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write it like 10s, 5m, 2h or 1h30m")
    if seconds > DURATION_MAX_S:
        raise argparse.ArgumentTypeError(f"{text!r} is longer than a year")
    return seconds


def positive_duration_s(text: str) -> float:
    seconds = duration_s(text)
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be more than nothing")
    return seconds


# Nobody who writes a smaller number without a unit means bytes.
BARE_SIZE_MIN_BYTES = 2**20


def size_bytes(text: str) -> int:
    """Bytes from '512MiB' or '20GB' (GB is 10^9, GiB is 2^30)."""
    match = _SIZE.fullmatch(text)
    if match is None or match[2].lower() not in SIZE_UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write it like 20GB, 16GiB or 512MiB")
    size = int(float(match[1]) * SIZE_UNITS[match[2].lower()])
    if not match[2] and 0 < size < BARE_SIZE_MIN_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} has no unit; write {text}GB or {text}MiB")
    if size > SIZE_MAX_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is more than any machine has")
    return size


def some_memory(text: str) -> int:
    size = size_bytes(text)
    if size == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no amount of memory; write it like 20GB or 512MiB")
    return size


def count(text: str) -> int:
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, zero or more")
    return int(text)


def positive_count(text: str) -> int:
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, one or more")
    if int(text) == 0:
        raise argparse.ArgumentTypeError("0 is not enough; at least 1 is needed")
    return int(text)


def port_number(text: str) -> int:
    if not text.strip().isdecimal() or not 0 < int(text) <= PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: those are numbers from 1 to {PORT_MAX}")
    return int(text)


def positive_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
    return number


def some_name(text: str) -> str:
    """Often a variable of a shell that was not set."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is no name; write one, or leave the flag out")
    return text


def shown_duration(seconds: float) -> str:
    return duration_in_words(seconds)


def shown_size(size: float) -> str:
    """In the units it was written in, as far as that can be told."""
    return size_in_words(size)


def shown_model(model: str) -> str:
    """Without what stands before every name of its maker's; it means the same card where it is asked for."""
    return model.removeprefix("NVIDIA ").removeprefix("GeForce ")


def shown_kinds(gpus: Iterable[dict[str, Any]]) -> str:
    """Cards as the coordinator tells them, those of a kind together: 2 x A100 80 GB, 1 x RTX 4090 24 GB."""
    kinds = Counter(f"{shown_model(gpu['model'])} {shown_size(gpu['memory_bytes'])}" for gpu in gpus)
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items()))


def shown_indices(indices: Sequence[int]) -> str:
    """Of GPUs by their numbers: a 0 alone would read as none."""
    if not indices:
        return "-"
    return f"GPU{'' if len(indices) == 1 else 's'} {', '.join(map(str, indices))}"


def shown_saving(saving: dict[str, Any]) -> str:
    """What is being done for a save, how far that is, and how long it has taken."""
    total_bytes = saving["total_bytes"]
    words = {
        "asked": "asked of its program",
        "dumping": "being written as a whole guest",
        "written": "written and waits to be sent",
        "packing": "being set aside",
        "sending": "being sent",
    }.get(saving["stage"], "under way")
    if total_bytes:
        words += f" ({saving['done_bytes'] / total_bytes:.0%} of {shown_size(total_bytes)})"
    return words if saving["for_s"] is None else f"{words}, {shown_duration(saving['for_s'])}"


def shown_finishing(finishing: dict[str, Any]) -> str:
    """Of a job whose program has ended."""
    if finishing["trouble"] is None:
        return "its output is being sent"
    return f"its output is not taken: {finishing['trouble']}"


def shown_reached(progress: float, step: int) -> str:
    """A program that does not say how much there is to do has steps and no share of them."""
    if not progress and step:
        return f"step {step}"
    return f"{progress:.0%} (step {step})" if step else f"{progress:.0%}"


def shown_preparing(preparing: dict[str, Any]) -> str:
    """What a start waits for, and how far that is where somebody can tell."""
    done = preparing["done"]
    return str(preparing["what"]) if done is None else f"{preparing['what']}, {done:.0%}"


def capability_range(text: str) -> str:
    return _range(text, ">=8.0")


def cuda_range(text: str) -> str:
    return _range(text, ">=12.4")


def _range(text: str, example: str) -> str:
    from gpunion.domain.version_ranges import BadRange, checked_range

    try:
        return checked_range(text, example)
    except BadRange as error:
        raise argparse.ArgumentTypeError(str(error)) from error
