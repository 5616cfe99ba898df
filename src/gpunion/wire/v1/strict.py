"""What all models of requests share: a misspelt key is an error that names the key that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

# A message lists at most this many keys; more would hide what matters.
SHOWN_KEYS = 12


class Strict(BaseModel):
    """A request's part: no unknown key, no infinity or NaN."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def name_unknown_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            unknown = sorted(str(key) for key in data.keys() - cls.model_fields.keys())
            if unknown:
                raise PydanticCustomError("unknown_key", "{hint}", {"hint": hint(unknown, cls.model_fields)})
        return data


class Answer(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(extra="forbid")


def hint(unknown: Iterable[str], known: Iterable[str]) -> str:
    known = list(known)
    return "; ".join(_one_hint(key, known) for key in unknown)


def _one_hint(key: str, known: list[str]) -> str:
    shown = f"unknown key {key[:64]!r}"
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    if near:
        return f"{shown}; did you mean {near[0]!r}?"
    if not known:
        return f"{shown}; none is known here"
    listed = ", ".join(known[:SHOWN_KEYS])
    return f"{shown}; known are {listed}"
