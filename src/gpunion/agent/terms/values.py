"""The values an owner may write in their terms, read and written: "60s", "16 GiB", "100 Mbit", words, yes.

Each kind reads what a file or a command line gives (text, or TOML's own numbers, truths and lists) and writes
what it would read again. ValueError says what is wrong and how it is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpunion.agent.terms.wall_time import zone_named
from gpunion.domain.egress import PLACES_MAX, parse_place
from gpunion.limits import WORDS_MAX, WORDS_MAX_CHARS
from gpunion.policy.terms.hours import parse_hours
from gpunion.text import amount_of_memory

_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(min|[smhd])")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:bit|bps)(?:/s)?", re.IGNORECASE)
_RATES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
# What words may be made of, as in a job's lab and a person's name.
_WORD = re.compile(r"[^\s,\x00-\x1f\x7f]{1,128}")
# More than any machine or network has: a typing error.
SIZE_MAX_BYTES, RATE_MAX_BPS = 2**50, 1e13
BARE_SIZE_MIN_BYTES = 2**20  # nobody who writes a smaller number without a unit means bytes
DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class Kind:
    read: Callable[[Any], Any]
    write: Callable[[Any], str]  # as TOML


def seconds(most_s: float, least_s: float = 0.0) -> Kind:
    def read(value: Any) -> float:
        text = str(value).strip().lower()
        if re.fullmatch(r"\d+(\.\d+)?", text) and not isinstance(value, bool):
            found = float(text)
        elif re.fullmatch(rf"(?:{_PART.pattern}\s*)+", text):
            found = sum(float(part[1]) * _SECONDS[part[2]] for part in _PART.finditer(text))
        else:
            raise ValueError(f"{value!r} is no duration; write it like 60s, 5m or 2h")
        if not least_s <= found <= most_s:
            raise ValueError(f"{value!r} is not between {_time(least_s)} and {_time(most_s)}")
        return found

    return Kind(read, lambda value: f'"{_time(value)}"')


def _time(value_s: float) -> str:
    for unit, size_s in (("h", 3600.0), ("m", 60.0)):
        if value_s >= size_s and value_s % size_s == 0:
            return f"{value_s / size_s:g}{unit}"
    return f"{value_s:g}s"


def numbers(least: float, most: float, unit: str, *, whole: bool = False) -> Kind:
    def read(value: Any) -> float | int:
        try:
            found = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            found = math.nan
        if not least <= found <= most or (whole and found != int(found)):
            what = "a whole number" if whole else "a number"
            raise ValueError(f"{value!r} is not {what} of {unit} between {least:g} and {most:g}")
        return int(found) if whole else found

    return Kind(read, lambda value: f"{value:g}" if not whole else str(value))


def choice(*words: str) -> Kind:
    def read(value: Any) -> str:
        text = str(value).strip().lower()
        if text not in words:
            raise ValueError(f"{value!r} is not one of: {', '.join(words)}")
        return text

    return Kind(read, quoted)


def _read_truth(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in (*_YES, *_NO):
        raise ValueError(f"{value!r} is neither yes nor no")
    return text in _YES


def _read_words(value: Any) -> tuple[str, ...]:
    found = [word.strip() for word in value.split(",")] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or len(found) > WORDS_MAX:
        raise ValueError(f"{value!r} is no list of names; write them like one,two")
    if sum(len(str(word)) for word in found) > WORDS_MAX_CHARS:
        raise ValueError(f"these names have more than {WORDS_MAX_CHARS} letters together; name labs instead")
    for word in found:
        if not isinstance(word, str) or not _WORD.fullmatch(word):
            raise ValueError(f"{word!r} is no name; write names like one,two")
    return tuple(dict.fromkeys(found))


def _read_places(value: Any) -> tuple[str, ...]:
    found = _read_words(value)
    if len(found) > PLACES_MAX:
        raise ValueError(f"more than {PLACES_MAX} places")
    for text in found:
        parse_place(text)
    return found


def _read_indices(value: Any) -> tuple[int, ...]:
    found = value.split(",") if isinstance(value, str) else value
    found = found if isinstance(found, list | tuple) else [found]
    if not all(str(index).strip().isdecimal() and not isinstance(index, bool) for index in found):
        raise ValueError(f"{value!r} are no numbers of GPUs; write them like 0,1")
    return tuple(sorted({int(index) for index in found}))


def _read_rate(value: Any) -> float:
    match = _RATE.fullmatch(str(value).strip())
    found = 0.0 if match is None else float(match[1]) * _RATES[match[2].upper()]
    if match is None or not 0 < found <= RATE_MAX_BPS:
        raise ValueError(f"{value!r} is no rate; write it like 100Mbit or 1Gbit")
    return found


def _write_rate(value: float) -> str:
    for unit in ("G", "M", "K"):
        if value >= _RATES[unit]:
            return f'"{value / _RATES[unit]:g}{unit}bit"'
    return f'"{value:g}bit"'


def _write_size(value: int) -> str:
    """In the units it was written in: 80GB are no round number of GiB."""
    for size, unit in ((2**30, "GiB"), (2**20, "MiB"), (10**9, "GB"), (10**6, "MB")):
        if value % size == 0:
            return f'"{value // size}{unit}"'
    return str(value)


def _read_hours(value: Any) -> str:
    text = " ".join(str(value).split())
    parse_hours(text)
    return "" if text.lower() == "always" else text


def _read_zone(value: Any) -> str:
    text = str(value).strip()
    if text and zone_named(text) is None:
        raise ValueError(f"{text!r} is no time zone this machine knows; write it like Europe/Berlin")
    return text


def _read_path(value: Any) -> str:
    text = str(value).strip()
    if "\n" in text or "\x00" in text or len(text) > 4096:
        raise ValueError("that is no name of a file")
    return text


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


TRUTH = Kind(_read_truth, lambda value: "true" if value else "false")
WORDS = Kind(_read_words, lambda value: f"[{', '.join(map(quoted, value))}]")
PLACES = Kind(_read_places, WORDS.write)
INDICES = Kind(_read_indices, lambda value: f"[{', '.join(map(str, value))}]")
RATE = Kind(_read_rate, _write_rate)
HOURS = Kind(_read_hours, quoted)
ZONE = Kind(_read_zone, quoted)
PATH = Kind(_read_path, quoted)


def _read_size(value: Any) -> int:
    given = int(value) if isinstance(value, str) and value.isdecimal() else value
    try:
        found = amount_of_memory(given, "")
        if found > SIZE_MAX_BYTES or (isinstance(given, int) and 0 < found < BARE_SIZE_MIN_BYTES):
            raise ValueError
        return found
    except (ValueError, OverflowError):
        raise ValueError(f"{value!r} is no amount of memory; write it like 16GiB") from None


SIZE = Kind(_read_size, _write_size)
