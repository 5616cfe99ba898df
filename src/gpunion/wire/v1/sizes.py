"""Sizes as people write them: 1073741824, "1GiB", "512 MB"."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_PATTERN = re.compile(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]{0,3})\s*", re.ASCII)
# More than any machine has, less than what a database's integer holds.
SIZE_LIMIT_BYTES = 2**50


def parse_size(value: Any) -> Any:
    """Bytes for a text with a unit; anything else goes on to the ordinary check."""
    if not isinstance(value, str):
        return value
    match = _PATTERN.fullmatch(value)
    unit = match[2].upper() if match else ""
    if match is None or unit not in _UNITS:
        raise ValueError(f"{value[:32]!r} is not a size; write bytes, or a number with KiB, MiB, GiB or TiB")
    return int(float(match[1]) * _UNITS[unit])


SizeBytes = Annotated[
    int,
    BeforeValidator(parse_size),
    Field(ge=0, le=SIZE_LIMIT_BYTES),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": SIZE_LIMIT_BYTES},
                {"type": "string", "examples": ["16GiB"]},
            ]
        }
    ),
]
