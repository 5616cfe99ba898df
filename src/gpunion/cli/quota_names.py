"""How an operator names who a quota is for."""

from __future__ import annotations

import argparse

KINDS = ("user", "lab")


def quota_name(text: str) -> str:
    """`user:NAME`, `lab:NAME`; a star for everybody who has no quota of their own."""
    kind, colon, name = text.partition(":")
    if kind not in KINDS or not colon or not name.strip() or "/" in name or ("*" in name and name != "*"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is nobody: write user:NAME or lab:NAME, or user:* or lab:* for all others"
        )
    return text
