"""The API's schema as a file: `python -m gpunion.coordinator.openapi [--check]` at the repository's root."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from gpunion.coordinator.app import make_app

FILE = Path("docs") / "openapi.json"


def schema_text() -> str:
    return json.dumps(make_app().openapi(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file is stale")
    check = parser.parse_args(arguments).check
    text = schema_text()
    if FILE.exists() and FILE.read_text(encoding="utf-8") == text:
        return 0
    if check:
        print(f"{FILE} is stale: run `python -m gpunion.coordinator.openapi`", file=sys.stderr)
        return 1
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
