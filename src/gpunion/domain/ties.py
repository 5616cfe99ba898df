"""Fair and repeatable choice among equals: a keyed hash of what is being decided, never a random draw."""

from __future__ import annotations

from hashlib import blake2b


def tie_break(*what: object) -> int:
    text = "\x1f".join(str(part) for part in what)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
