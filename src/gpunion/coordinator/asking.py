"""How a place for checkpoints is asked something: it may hang, and nobody waits for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Ask(Protocol):
    """Puts a question to a place and waits for a few seconds. VaultUnavailable when that was not enough."""

    def __call__(self, place: str, question: Callable[[], T], /) -> T: ...
