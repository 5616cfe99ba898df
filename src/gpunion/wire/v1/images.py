"""What an operator publishes for jobs, as it is added and shown: images and environments."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from gpunion.domain.environment import LIST_LIMIT_BYTES, package_list
from gpunion.domain.image import pinned
from gpunion.wire.v1.campus import OFFSET_LIMIT
from gpunion.wire.v1.names import Digest, EnvironmentName, ImageName
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


class EnvironmentIn(Strict):
    name: EnvironmentName
    requirements: str = Field(
        max_length=LIST_LIMIT_BYTES, description="as pip reads them: name==version, one a line"
    )

    @model_validator(mode="after")
    def _can_be_installed_alike(self) -> EnvironmentIn:
        package_list(self.name, self.requirements)
        return self


class InstalledOut(Answer):
    node: str
    size_bytes: int


class EnvironmentOut(Answer):
    name: str
    digest: str = Field(description="of the list: equal lists are equal environments")
    packages: int = Field(description="how many the list names")
    installed: list[InstalledOut] = Field(description="where it lies ready, as machines last said")
    added_at: str
    added_by: str


class EnvironmentList(Answer):
    environments: list[EnvironmentOut]
