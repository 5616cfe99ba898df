"""Numbers as people write them in settings, checked: "24 GiB", 0.5, true, lists of words."""

from __future__ import annotations

import math
import re
from typing import Any

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


def number(value: Any, name: str) -> float:
    """Zero or more."""
    try:
        result = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        result = float("nan")
    if not math.isfinite(result) or result < 0:
        raise ValueError(f"{name} = {value!r} must be a number, zero or more")
    return result


def positive(value: Any, name: str) -> float:
    result = number(value, name)
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
    return tuple(value)
