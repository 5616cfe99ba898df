"""Which notebooks had which kernels: what a new server needs to begin where the other one ended."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "notebooks.json"
MAX_BYTES = 4 * 1024 * 1024
KERNELS_MAX = 200  # more than fit into a machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Notebook:
    """One that is open; consoles too. Jupyter calls it a session."""

    id: str
    path: str
    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    id: str
    kind: str  # which of the kernels that are installed
    notebooks: tuple[Notebook, ...] = ()

    @property
    def title(self) -> str:
        return self.notebooks[0].path if self.notebooks else "a kernel without a notebook"


def write(folder: Path, kernels: tuple[Kernel, ...]) -> None:
    text = json.dumps([asdict(kernel) for kernel in kernels[:KERNELS_MAX]])
    (folder / FILE).write_text(text, encoding="utf-8")


def read(folder: Path) -> tuple[Kernel, ...]:
    """Nothing, of a save that holds none or that cannot be read."""
    try:
        with open(folder / FILE, "rb") as file:
            told = json.loads(file.read(MAX_BYTES))
        return tuple(_kernel(one) for one in told[:KERNELS_MAX])
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _kernel(told: dict[str, object]) -> Kernel:
    notebooks = told["notebooks"]
    if not isinstance(notebooks, list):
        raise ValueError("no list of notebooks")
    return Kernel(
        id=Path(str(told["id"])).name,
        kind=str(told["kind"]),
        notebooks=tuple(
            Notebook(id=str(one["id"]), path=str(one["path"]), name=str(one["name"]), type=str(one["type"]))
            for one in notebooks
        ),
    )
