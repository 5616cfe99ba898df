"""Sizes in words, as the person wrote them who asked for them.

People write sizes in both kinds of units. What is a round number of GB was written as such, so it is shown
so: 80 GB stay 80 GB, and 16 GiB stay 16 GiB. What was measured is shown in powers of 1024.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

from gpunion.limits import MOMENT_MAX_S, WORDS_MAX, WORDS_MAX_CHARS

_NUMBERS = re.compile(r"(\d+)")
_OWN = re.compile(r"-a(?=\d+(?:[./]|$))")  # as `own_checkpoint_id` has it, at the end of an id or a record's

_BINARY = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_DECIMAL = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"))


def size_in_words(size_bytes: float) -> str:
    if size_bytes < 2**10:
        return f"{_one_digit(size_bytes)} bytes"
    unit_bytes, unit = _decimal_unit(size_bytes) or next(row for row in _BINARY if size_bytes >= row[0])
    return f"{_one_digit(size_bytes / unit_bytes)} {unit}"


def _decimal_unit(size_bytes: float) -> tuple[int, str] | None:
    """The one in which it is a number with one digit after the point at most; none where it is round in
    powers of 1024."""
    if size_bytes % 2**20 == 0:
        return None
    row = next((row for row in _DECIMAL if size_bytes >= row[0]), None)
    return row if row is not None and size_bytes % (row[0] // 10) == 0 else None


def _one_digit(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


_SPANS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def duration_in_words(seconds: float) -> str:
    """Two units at most: 45 s, 5 min 3 s, 2 h 10 min, 3 d 4 h."""
    if seconds < 10:
        return f"{_one_digit(seconds)} s"
    whole = round(seconds)
    for size, unit, smaller, smaller_unit in _SPANS:
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {smaller_unit}" if rest else "")
    return f"{whole} s"


# As written in templates: `{moves} move(s)` and `{needs} (is/are) needed` agree with the fact before them.
_CHOICE = re.compile(r"\{(\w+)\}|\(s\)|\((\w+)/(\w+)\)")


def counted(number: float, noun: str) -> str:
    shown = f"{number:g}" if isinstance(number, float) else str(number)
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}s"


@lru_cache(maxsize=1024)  # there are some dozens of templates, and few of their facts are counts
def agreeing(template: str, ones: frozenset[str]) -> str:
    """The template for these facts. `ones`: those that are exactly one."""
    last = ""

    def choose(found: re.Match[str]) -> str:
        nonlocal last
        if found[1]:
            last = found[1]
            return found[0]
        one, many = (found[2], found[3]) if found[2] else ("", "s")
        return one if last in ones else many

    return _CHOICE.sub(choose, template)


_UNITS = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4}
_UNITS |= {"KIB": 1024, "MIB": 1024**2, "GIB": 1024**3, "TIB": 1024**4}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def amount_of_memory(value: Any, name: str) -> int:
    """Bytes from a number or from text such as "24 GiB"."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2].upper() not in _UNITS or float(match[1]) <= 0:
        raise ValueError(f'{name} = {value!r} is no amount of memory; write it like "24 GiB"')
    return int(float(match[1]) * _UNITS[match[2].upper()])


def number(value: Any, name: str, most: float = MOMENT_MAX_S) -> float:
    """Zero or more, up to what the campus can be told of."""
    try:
        result = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        result = float("nan")
    if not math.isfinite(result) or result < 0:
        raise ValueError(f"{name} = {value!r} must be a number, zero or more")
    if result > most:
        raise ValueError(f"{name} = {value!r} is more than {most:g}, which is the most there can be")
    return result


def positive(value: Any, name: str, most: float = MOMENT_MAX_S) -> float:
    result = number(value, name, most)
    if result == 0:
        raise ValueError(f"{name} must be more than zero")
    return result


def truth(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} = {value!r} must be true or false")
    return value


def words(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{name} = {value!r} must be a list of words")
    if len(value) > WORDS_MAX or sum(map(len, value)) > WORDS_MAX_CHARS:
        raise ValueError(f"{name} has more than {WORDS_MAX} words, or {WORDS_MAX_CHARS} letters together")
    return tuple(value)


def by_number(name: str) -> tuple[str | int, ...]:
    """To sort names by, so that the tenth save comes after the ninth: of a program that tells no steps only
    their numbers say which is the newer. What an agent took by itself is the last that a run saves, so it
    comes after what was ordered."""
    parts = _NUMBERS.split(_OWN.sub("-d", name))
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts))


def is_of_run(name: str, job_id: str, epoch: int) -> bool:
    """Whether a checkpoint or an output is called after that run, as all that it makes is."""
    return name.startswith(f"{job_id}-e{epoch}-")
