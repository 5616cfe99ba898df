"""What can be seen on a machine of its owner coming back.

Only which of them are shown is ever told: not who is there, nor what they do. An owner's calendar is no sign:
what it says is certain, and is told as the moment the lending ends.
"""

from __future__ import annotations

from enum import StrEnum


class Sign(StrEnum):
    OWNER_LOGGED_IN = "owner-logged-in"
    OWNER_ON_GPU = "owner-on-gpu"
    KEYBOARD = "keyboard"


Signs = tuple[Sign, ...]  # each once, in the order above


def in_order(signs: frozenset[Sign]) -> Signs:
    return tuple(sign for sign in Sign if sign in signs)
