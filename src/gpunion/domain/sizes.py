"""Sizes in words, as the person wrote them who asked for them.

People write sizes in both kinds of units. What is a round number of GB was written as such, so it is shown
so: 80 GB stay 80 GB, and 16 GiB stay 16 GiB. What was measured is shown in powers of 1024.
"""

from __future__ import annotations

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
