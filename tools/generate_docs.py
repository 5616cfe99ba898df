"""Writes the documents that are generated from code, or with --check says which of them are stale.

A generator is a function without arguments that returns the text of one file; add it to GENERATORS under
the file's path. Its imports belong inside it, so that one broken package does not hide the others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def lifecycle() -> str:
    from gpunion.lifecycle.diagrams import MACHINES

    parts = [
        "# Lifecycles\n",
        "Made by `make docs` from the edge tables in `src/gpunion/lifecycle`; do not edit.",
        "An edge that is not drawn here cannot be taken: it raises `IllegalTransition`.\n",
    ]
    for name, machine in MACHINES.items():
        parts += [f"## {name.capitalize()}\n", f"```mermaid\n{machine.mermaid()}```\n"]
    return "\n".join(parts)


def openapi() -> str:
    from gpunion.coordinator.openapi import schema_text

    return schema_text()


def command_line() -> str:
    from gpunion.cli.reference import reference

    return reference()


def dashboard(name: str) -> str:
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from tools.dashboards import DASHBOARDS, dashboard_text

    return dashboard_text(DASHBOARDS[name])


GENERATORS: dict[str, Callable[[], str]] = {
    "docs/lifecycle.md": lifecycle,
    "docs/openapi.json": openapi,
    "docs/cli.md": command_line,
    **{f"deploy/grafana/{name}.json": partial(dashboard, name) for name in ("campus", "node", "jobs")},
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is stale")
    check = parser.parse_args(arguments).check

    stale = [path for path, generate in GENERATORS.items() if not refresh(ROOT / path, generate(), check)]
    for path in stale:
        print(f"{path} is stale: run `make docs` and commit the result", file=sys.stderr)
    return 1 if stale else 0


def refresh(path: Path, text: str, check: bool) -> bool:
    """Whether the file is as it should be; without check, makes it so."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return True
    if check:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True


if __name__ == "__main__":
    sys.exit(main())
