"""The images on a machine, and where missing ones come from.

The images of a container engine belong to its owner. Nothing here removes or renames one by itself; who loads
some keeps book of them (`agent.machine.images`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gpunion.domain.image import Image


class ImageFault(Exception):
    """The engine did not do it. `no_room`: its disk is full."""

    def __init__(self, message: str, *, no_room: bool = False) -> None:
        super().__init__(message)
        self.no_room = no_room


class Images(Protocol):
    """What an engine has. Calls block, and raise ImageFault."""

    def find(self, image: Image) -> str | None:
        """The engine's own id of exactly this image, whatever it is called there; None: it has none."""
        ...

    def called(self, name: str) -> str | None:
        """What the engine has under this name: an id, or None. For words only."""
        ...

    def size_bytes(self, image_id: str) -> int: ...

    def load(self, archive: Path) -> None:
        """Take over what the archive holds. The caller has checked what that is."""
        ...

    def pull(self, image: Image) -> None:
        """Have the engine fetch it from the registry that its name names."""
        ...

    def remove(self, image_id: str) -> bool:
        """False where a container uses it, or somebody has given it a name: then it stays."""
        ...


class ArchiveSource(Protocol):
    """The campus's own store of images."""

    async def fetch_archive(self, digest: str, into: Path, reached: Callable[[int], None]) -> None:
        """Append to `into` what it lacks; unverified. `reached` is told its size, and may raise to stop.

        LinkFault where the coordinator cannot be reached or has no such archive; OSError as the disk says.
        """
        ...
