"""How an operator names who a quota is for."""

from __future__ import annotations

import argparse

from gpunion.cli.campus import Json

KINDS = ("user", "lab")
# Whoever may drive others out has to be rationed; there is nothing to ration in the others.
RATIONED = ("high",)


def add_class_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--class", dest="priority", choices=RATIONED, help="for jobs of this class alone (all jobs)"
    )


def of_class(quota: Json) -> str:
    return "" if quota["priority"] is None else f" for jobs of class {quota['priority']}"


def quota_name(text: str) -> str:
    """`user:NAME`, `lab:NAME`; a star for everybody who has no quota of their own."""
    kind, colon, name = text.partition(":")
    if kind not in KINDS or not colon or not name.strip() or "/" in name or ("*" in name and name != "*"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is nobody: write user:NAME or lab:NAME, or user:* or lab:* for all others"
        )
    return text
