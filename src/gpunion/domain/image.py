"""Container images: named by people, pinned by what they hold.

The digest is the SHA-256 of the image's configuration, which lists the digest of every layer (an engine calls
it the image's id), or of its manifest in a registry. Either way the same digest means the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

NAME_LIMIT_CHARS = 200
DIGEST_PREFIX = "sha256:"
_NAME = re.compile(r"[a-z0-9][a-z0-9._/-]*(?::[0-9]+/[a-z0-9._/-]+)?(?::[A-Za-z0-9_][A-Za-z0-9._-]*)?")
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    name: str
    digest: str  # 64 hexadecimal digits

    @property
    def ref(self) -> str:
        return f"{self.name}@{DIGEST_PREFIX}{self.digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """An image as a file in the campus's own store, named by the SHA-256 of the file."""

    digest: str
    size_bytes: int
    requires: str = ""  # of a machine's GPUs and driver, as its makers wrote it: NVIDIA_REQUIRE_CUDA


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """What a node needs to have an image: which one, and where it can be fetched besides a registry."""

    image: Image
    archive: Archive | None = None


class ImagePhase(StrEnum):
    LISTED = "listed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampusImage:
    """One line of the campus's list of what jobs may run in."""

    id: str  # the pinned name
    phase: ImagePhase
    image: Image
    added_s: float
    added_by: str
    archive: Archive | None = None

    @property
    def listed(self) -> bool:
        return self.phase is ImagePhase.LISTED

    @property
    def parcel(self) -> Parcel:
        return Parcel(image=self.image, archive=self.archive)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAdded:
    image: Image
    archive: Archive | None
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRemoved:
    image: Image
    by: str


ImageEvent = ImageAdded | ImageRemoved


def parse_image(text: str) -> tuple[str, str | None]:
    """Name and digest; no digest where only a name was given. ValueError says what is wrong."""
    name, at, digest = text.partition("@")
    if len(name) > NAME_LIMIT_CHARS or not _NAME.fullmatch(name) or "//" in name:
        raise ValueError(f"{text[:80]!r} names no image; write NAME or NAME@sha256:DIGEST, like torch:2.4")
    if not at:
        return name, None
    if not digest.startswith(DIGEST_PREFIX) or not _HEX.fullmatch(digest.removeprefix(DIGEST_PREFIX)):
        raise ValueError(f"{digest[:80]!r} is no digest; write sha256: and 64 hexadecimal digits")
    return name, digest.removeprefix(DIGEST_PREFIX)


def pinned(text: str) -> Image:
    """ValueError where it is not pinned."""
    name, digest = parse_image(text)
    if digest is None:
        raise ValueError(f"{name} is not pinned; write {name}@sha256:DIGEST")
    return Image(name=name, digest=digest)


def matches(image: Image, patterns: Iterable[str]) -> bool:
    """A pattern is for the name, the digest ("sha256:...") or both ("name@sha256:..."); * stands for any."""
    said = (image.name, f"{DIGEST_PREFIX}{image.digest}", image.ref)
    return any(fnmatchcase(text, pattern) for pattern in patterns for text in said)


def find_listed(images: Iterable[CampusImage], asked: str) -> CampusImage | None:
    """What a job's word for an image stands for; of several with that name, the one added last."""
    name, digest = parse_image(asked)
    fitting = [
        entry
        for entry in images
        if entry.listed and entry.image.name == name and digest in (None, entry.image.digest)
    ]
    return max(fitting, key=lambda entry: (entry.added_s, entry.id), default=None)
