"""`gpunion sim scenarios`: which scenarios there are to run."""

from __future__ import annotations

import argparse
import os
import tomllib
from pathlib import Path

from gpunion.cli.commands.study.scenarios import scenario_files
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.output.screen import Table

JSON = "`{scenarios: [{name, path, about}]}`."
EXAMPLES = ("gpunion sim scenarios",)


def configure(parser: argparse.ArgumentParser) -> None:
    del parser


def run(arguments: argparse.Namespace, context: Context) -> int:
    del arguments
    found = [
        {"name": path.stem, "path": os.path.relpath(path, context.here), "about": about(path)}
        for path in scenario_files(context.here)
    ]
    if context.screen.as_json:
        context.screen.data({"scenarios": found})
    elif not found:
        context.screen.line(
            "No scenario is at hand. Next: gpunion sim fuzz --seeds 10, or write one into scenarios/"
        )
    else:
        rows = [[scenario["name"], scenario["path"], scenario["about"]] for scenario in found]
        context.screen.table(Table(columns=("NAME", "FILE", "ABOUT"), rows=list(rows)))
    return OK


def about(path: Path) -> str:
    """The scenario's own words: its comment at the top."""
    try:
        text = path.read_text(encoding="utf-8")
        tomllib.loads(text)
    except (OSError, ValueError) as error:
        return f"cannot be read: {error}"
    words: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        words.append(line.lstrip("# ").strip())
    return " ".join(word for word in words if word)
