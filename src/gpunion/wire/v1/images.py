"""The campus's images as they are added and shown."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from gpunion.domain.image import pinned
from gpunion.wire.v1.campus import OFFSET_LIMIT
from gpunion.wire.v1.names import Digest, ImageName
from gpunion.wire.v1.strict import Answer, Strict

# A piece of an archive: small enough to hold in memory, large enough that a gigabit is not spent waiting.
PIECE_LIMIT_BYTES = 16 * 1024**2


def _pinned(text: str) -> str:
    return pinned(text).ref


PinnedImage = Annotated[str, Field(max_length=300), AfterValidator(_pinned)]


class ImageIn(Strict):
    image: PinnedImage
    archive: Digest | None = None


class ImageOut(Answer):
    """`archive` and its size are null where nodes have to have the image, or find it in a registry."""

    image: str
    name: str
    digest: str
    archive: str | None
    size_bytes: int | None
    added_at: str
    added_by: str


class ImageList(Answer):
    images: list[ImageOut]


class ImageQuery(Strict):
    image: ImageName


class ArchiveQuery(Strict):
    offset: int = Field(ge=0, le=OFFSET_LIMIT)
    last: bool = False


class ArchiveOut(Answer):
    """How much of an archive has arrived; `complete`: all of it, and it is what it was called."""

    digest: str
    next_offset: int
    complete: bool
