"""The kinds of ranges, and what each makes of a value that lies outside.

Three ways to look at a value. `check`: it lies within, or it is refused. `hear`, of what a peer said: words
for people are made readable and cut, anything else outside is refused. `tell`, of what is about to be said:
whatever can be brought inside is, so that nobody is struck dumb by a strange number of a driver's; what names
something is refused, since it would name something else then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol

from gpunion.limits import OutOfRange, as_told, is_line, readable

SHOWN_CHARS = 40
_NUMBERS = (float, int)


class Way(Enum):
    CHECK = "check"
    HEAR = "hear"
    TELL = "tell"


class Rule(Protocol):
    def check(self, value: Any) -> Any: ...

    def hear(self, value: Any) -> Any: ...

    def tell(self, value: Any) -> Any: ...


def way_of(rule: Rule, way: Way) -> Any:
    return getattr(rule, way.value)


class Between:
    def __init__(self, least: float, most: float, refusal: Callable[[Any], OutOfRange]) -> None:
        self.least, self.most, self._refusal = least, most, refusal

    def __call__(self, value: Any) -> Any:
        if self.least <= value <= self.most:
            return value
        raise self._refusal(value)


class Number:
    def __init__(self, least: float, most: float) -> None:
        self._least, self._most = least, most

        def check(value: Any) -> Any:
            if least <= value <= most and value.__class__ in _NUMBERS:
                return value
            raise self._refusal(value)

        self.check = check
        self.hear = Between(least, most, self._refusal)  # what was read as a number is one

    def tell(self, value: Any) -> Any:
        if value.__class__ in _NUMBERS and self._least <= value <= self._most:
            return value
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self._refusal(value)
        if value != value:
            return self._nothing()
        return type(value)(min(max(value, self._least), self._most))

    def _nothing(self) -> float:
        """What stands for no number at all: zero, or what is nearest to it."""
        return float(min(max(0.0, self._least), self._most))

    def _refusal(self, value: Any) -> OutOfRange:
        return OutOfRange(f"{_shown(value)} is not between {self._least:g} and {self._most:g}")


class Text:
    """As it is, up to a length."""

    def __init__(self, most_chars: int) -> None:
        self._most = most_chars

    def check(self, value: Any) -> Any:
        if value.__class__ is not str:
            raise OutOfRange(f"{_shown(value)} is no text")
        if len(value) > self._most:
            raise OutOfRange(f"{len(value)} characters are more than {self._most}")
        return value

    hear = check

    def tell(self, value: Any) -> Any:
        return value if value.isascii() else value.encode(errors="replace").decode()


class Line:
    """A short name that a terminal shows as it is."""

    def __init__(self, most_chars: int) -> None:
        self._most = most_chars

    def check(self, value: Any) -> Any:
        if value.__class__ is not str:
            raise OutOfRange(f"{_shown(value)} is no text")
        if len(value) > self._most:
            raise OutOfRange(f"{len(value)} characters are more than {self._most}")
        if not (value.isprintable() or is_line(value)):
            raise OutOfRange(f"{_shown(value)} is no name: it has letters that nobody can read")
        return value

    hear = check

    def tell(self, value: Any) -> Any:
        if len(value) <= self._most and (value.isprintable() or is_line(value)):
            return value
        return readable(value[: 2 * self._most])[: self._most]


class Matching:
    """A name that has to be exactly so."""

    def __init__(self, pattern: str | re.Pattern[str], in_words: str) -> None:
        matches = re.compile(pattern).fullmatch

        def check(value: Any) -> Any:
            if matches(value) is None:
                raise OutOfRange(f"{_shown(value)} is not {in_words}")
            return value

        self.check = self.hear = self.tell = check


class Said:
    """Words for people."""

    def check(self, value: Any) -> Any:
        if value.__class__ is not str or as_told(value) != value:
            raise OutOfRange(f"{_shown(value)} is not one readable line of at most 500 characters")
        return value

    def hear(self, value: Any) -> Any:
        return as_told(value)

    tell = hear


class Items:
    """How many, of how many characters together, and whether one may be there twice."""

    def __init__(self, most: int, *, most_chars: int = 0, once: bool = False, once_by: str = "") -> None:
        self._most, self._most_chars, self._once, self._once_by = most, most_chars, once, once_by
        self.check = self.hear = self._check

    def _check(self, items: Sequence[Any]) -> Sequence[Any]:
        if len(items) > self._most:
            raise OutOfRange(f"{len(items)} are more than {self._most}")
        if self._most_chars and sum(map(len, items)) > self._most_chars:
            raise OutOfRange(f"more than {self._most_chars} characters together")
        named = [getattr(item, self._once_by) for item in items] if self._once_by else items
        if (self._once or self._once_by) and len(set(named)) < len(items):
            raise OutOfRange("one is named twice")
        return items

    def tell(self, items: Sequence[Any]) -> Sequence[Any]:
        try:
            return self._check(items)
        except OutOfRange:
            return self._cut(items)

    def _cut(self, items: Sequence[Any]) -> Sequence[Any]:
        kept: dict[Any, Any] = {}
        chars = 0
        for place, item in enumerate(items[: self._most]):
            chars += len(item) if self._most_chars else 0
            if self._most_chars and chars > self._most_chars:
                break
            key = getattr(item, self._once_by) if self._once_by else item if self._once else place
            kept.setdefault(key, item)
        return tuple(kept.values())


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."
