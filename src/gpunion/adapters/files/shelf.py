"""Where one job's records lie in a directory vault, and what their names say."""

from __future__ import annotations

import json
import re
from pathlib import Path

from gpunion.adapters.files.damage import in_words
from gpunion.domain.ids import by_number
from gpunion.ports.vault import BadManifest, Manifest

NAME_PATTERN = re.compile(r"\d{10}-\d{15}-[A-Za-z0-9._-]+\.json")


class Shelf:
    """Knows names and reads them; it changes nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = root / "lock"
        self.begun = root / "begun"
        self.epoch_file = root / "epoch.json"
        self.manifests = root / "manifests"
        self.damaged = root / "damaged"
        self.own_blocks = root / "blocks"

    def epoch(self) -> int | None:
        """The newest epoch that has begun; None when none has."""
        try:
            return int(json.loads(self.epoch_file.read_bytes())["epoch"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            # Guessing here could let an old run overwrite a newer one's work.
            raise BadManifest(
                f"the epoch record of {self.root.name} is damaged: {in_words(error)}"
            ) from error

    def path_of(self, manifest: Manifest) -> Path:
        name = f"{manifest.epoch:010d}-{manifest.step:015d}-{manifest.checkpoint_id}.json"
        return self.manifests / name

    def sealed(self) -> list[Path]:
        """Manifests by (epoch, step), oldest first: their names sort that way."""
        found = (path for path in self.manifests.glob("*.json") if NAME_PATTERN.fullmatch(path.name))
        return sorted(found, key=lambda path: by_number(path.name))

    def find(self, checkpoint_id: str) -> Path | None:
        return next((path for path in self.sealed() if self.checkpoint_id(path) == checkpoint_id), None)

    @staticmethod
    def checkpoint_id(path: Path) -> str:
        return path.name.removesuffix(".json").split("-", 2)[2]
