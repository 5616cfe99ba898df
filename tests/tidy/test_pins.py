"""What `requirements/*.txt` must hold for an old pip to install from it, today and after others release."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"


@pytest.mark.parametrize("name", ["demo.txt", "dev.txt"])
def test_a_pin_names_every_extra_that_another_package_asks_of_it(name: str) -> None:
    """Else the pip of Debian 12 looks for the newest `coverage[toml]`, whatever `coverage` is pinned to, and
    refuses it for lack of a hash: the installation works until the day a new version is released."""
    pins = _pins(REQUIREMENTS / name)
    lacking = [
        f"{asking} asks for {wanted}, pinned is {pins[wanted.name]}"
        for asking, pin in pins.items()
        for wanted in _wanted_by(asking, pin.extras)
        if wanted.name in pins and not wanted.extras <= pins[wanted.name].extras
    ]
    assert lacking == []


def test_requirements_ask_for_extras_at_all() -> None:
    """So that the test above has something to look at."""
    assert any(pin.extras for pin in _pins(REQUIREMENTS / "dev.txt").values())


def _pins(path: Path) -> dict[str, Requirement]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith((" ", "#"))]
    pins = [_parsed(line.removesuffix("\\")) for line in lines]
    return {pin.name: pin for pin in pins}


def _wanted_by(package: str, extras: set[str]) -> list[Requirement]:
    try:
        declared = metadata.requires(package) or []
    except metadata.PackageNotFoundError:  # of another Python or system
        return []
    return [
        wanted
        for wanted in map(_parsed, declared)
        if not wanted.marker or any(wanted.marker.evaluate({"extra": extra}) for extra in {"", *extras})
    ]


def _parsed(line: str) -> Requirement:
    found = Requirement(line)
    found.name = canonicalize_name(found.name)
    return found
