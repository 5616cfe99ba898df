"""Where scenarios are: in `scenarios/` next to you, and in that of the checkout this program runs from."""

from __future__ import annotations

from pathlib import Path

FOLDER = "scenarios"


def folders(here: Path) -> list[Path]:
    checkout = Path(__file__).resolve().parents[5]
    return [folder for folder in dict.fromkeys((here / FOLDER, checkout / FOLDER)) if folder.is_dir()]


def scenario_files(here: Path) -> list[Path]:
    """One a name; the nearer folder wins."""
    found: dict[str, Path] = {}
    for folder in folders(here):
        for path in sorted(folder.rglob("*.toml")):
            found.setdefault(path.stem, path)
    return [found[name] for name in sorted(found)]


def find_scenario(word: str, here: Path) -> Path | None:
    if (here / word).is_file():
        return here / word
    return next((path for path in scenario_files(here) if path.stem == word or path.name == word), None)
