"""How far the reading of a vault is. The number of blocks is known only when the manifests have been read."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from gpunion.cli.output.progress import Progress
from gpunion.cli.output.screen import Screen


class VaultProgress:
    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._total = 0
        self._progress: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.__exit__(kind, value, trace)

    def reach(self, done: int, total: int) -> None:
        if self._progress is None or total != self._total:
            self._progress, self._total = Progress(self._screen, total, "blocks"), total
        self._progress.reach(done)
