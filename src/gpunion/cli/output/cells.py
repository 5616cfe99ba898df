"""How much room letters take on a terminal, where some take two places and some none.

Everything that stands under something else is measured, cut and filled up here: `len` counts letters.
"""

from __future__ import annotations

import re
from functools import lru_cache

_HYPHENATED = re.compile(r"(?<=[^\W\d_]-)(?=[^\W\d_])")  # a line may end behind a dash between letters


def width_of(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_places, text))


def filled(text: str, width: int) -> str:
    return text + " " * max(0, width - width_of(text))


def cut(text: str, width: int) -> str:
    """As much of its beginning as there is room for."""
    if text.isascii():
        return text[:width]
    taken = 0
    for at, letter in enumerate(text):
        taken += _places(letter)
        if taken > width:
            return text[:at]
    return text


def longest_part(text: str) -> int:
    """How wide a line must be at least, so that no word is broken."""
    return max((width_of(part) for word in text.split() for part in _HYPHENATED.split(word)), default=0)


def folded(text: str, width: int) -> list[str]:
    """In lines of that width at most: at blanks and dashes, else inside a word that no line has room for."""
    if width_of(text) <= width:
        return [text]
    lines, line = list[str](), ""
    for word in text.split():
        blank = " " if line else ""
        for part in _HYPHENATED.split(word):
            while width_of(line + blank + part) > width:
                if line:
                    lines.append(line)
                    line = blank = ""
                    continue
                head = cut(part, width) or part[0]
                lines.append(head)
                part = part[len(head) :]
            line, blank = line + blank + part, ""
    return [*lines, line] if line else lines


@lru_cache(maxsize=4096)
def _places(letter: str) -> int:
    from unicodedata import category, combining, east_asian_width

    if combining(letter) or category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1
