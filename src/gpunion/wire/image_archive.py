"""An image as one file: what `docker save` and `podman save` write, reduced to the image itself.

Reduced, because such a file may also bring tags: an engine that loads it moves the tag, and an owner's own
`torch:latest` would be another image afterwards. Without them, and without times and owners of members, the
same image is always the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpunion.domain.image_settings import ImageSettings, image_settings

MANIFEST = "manifest.json"
# A configuration lists layers and variables: kilobytes. A megabyte of it is somebody's mischief.
TEXT_LIMIT_BYTES = 4 * 1024**2
LAYERS_MAX = 256
COPY_BYTES = 1024 * 1024


class BadArchive(ValueError):
    """The file is no image, or not the one it should be. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedImage:
    """One image of an archive: the digest that pins it, and where its parts are in the file."""

    digest: str
    config: bytes
    layers: tuple[str, ...]


def reduce_archive(
    source: Path, target: Path, digest: str | None, copied: Callable[[int], None] = lambda size: None
) -> str:
    """Writes the image with this digest (the only one, where none is given) to `target`; its digest."""
    try:
        with tarfile.open(source) as archive, tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as reduced:
            image = _choose(_saved_images(archive), digest)
            places = list(dict.fromkeys(image.layers))
            names = [f"layer-{places.index(place)}.tar" for place in image.layers]
            listing = [{"Config": f"{image.digest}.json", "RepoTags": None, "Layers": names}]
            _add(reduced, MANIFEST, json.dumps(listing).encode())
            _add(reduced, f"{image.digest}.json", image.config)
            for number, place in enumerate(places):
                _copy(archive, place, reduced, f"layer-{number}.tar", copied)
            return image.digest
    except (tarfile.TarError, EOFError, KeyError) as error:
        # After its first line the library lists everything it tried to unpack the file with.
        said = str(error).partition("\n")[0].removesuffix(":")
        raise BadArchive(f"{source} is no archive of an image: {said}") from error


def check_reduced(file: Path) -> str:
    """The digest of the image in it. BadArchive where the file would give an engine anything else."""
    try:
        with tarfile.open(file, "r:") as archive:
            images = _saved_images(archive)
            if len(images) != 1 or _tags(archive):
                raise BadArchive("the archive brings tags or several images; it has to be one image alone")
            expected = {MANIFEST, f"{images[0].digest}.json", *images[0].layers}
            members = archive.getmembers()
            if any(not member.isreg() or member.name not in expected for member in members):
                raise BadArchive("the archive holds more than one image's configuration and layers")
            if len(members) != len(expected):
                raise BadArchive("the archive has a part twice, or lacks one")
            return images[0].digest
    except (tarfile.TarError, EOFError, KeyError) as error:
        raise BadArchive(f"the archive cannot be read: {error}") from error


def settings_in(file: Path) -> ImageSettings:
    """What the makers of the one image in it meant to be run. BadArchive where that cannot be read."""
    try:
        with tarfile.open(file, "r:") as archive:
            config = json.loads(_saved_images(archive)[0].config)
        return image_settings(config.get("config") or {})
    except (tarfile.TarError, EOFError, KeyError, ValueError, AttributeError) as error:
        raise BadArchive(f"the configuration of the image cannot be read: {error}") from error


def file_digest(file: Path) -> str:
    with open(file, "rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _saved_images(archive: tarfile.TarFile) -> list[SavedImage]:
    try:
        return [_saved_image(archive, entry) for entry in _listing(archive)]
    except (TypeError, AttributeError) as error:
        raise BadArchive(f"its {MANIFEST} makes no sense: {error}") from error


def _saved_image(archive: tarfile.TarFile, entry: dict[str, Any]) -> SavedImage:
    config = _text(archive, str(entry["Config"]))
    layers = tuple(str(layer) for layer in entry["Layers"] or ())
    if len(layers) > LAYERS_MAX:
        raise BadArchive(f"it has {len(layers)} layers, {LAYERS_MAX} are allowed")
    return SavedImage(digest=hashlib.sha256(config).hexdigest(), config=config, layers=layers)


def _tags(archive: tarfile.TarFile) -> bool:
    return any(entry.get("RepoTags") for entry in _listing(archive))


def _listing(archive: tarfile.TarFile) -> list[dict[str, Any]]:
    try:
        listing = json.loads(_text(archive, MANIFEST))
    except ValueError as error:
        raise BadArchive(f"its {MANIFEST} is no JSON: {error}") from error
    if not isinstance(listing, list) or not listing:
        raise BadArchive(f"its {MANIFEST} lists no image")
    return listing


def _choose(images: list[SavedImage], digest: str | None) -> SavedImage:
    fitting = [image for image in images if digest in (None, image.digest)]
    if len(fitting) == 1:
        return fitting[0]
    here = ", ".join(f"sha256:{image.digest}" for image in images)
    if digest is None:
        raise BadArchive(f"it holds several images ({here}); say which one: NAME@sha256:DIGEST")
    raise BadArchive(f"it holds {here}, not sha256:{digest}")


def _text(archive: tarfile.TarFile, name: str) -> bytes:
    """KeyError where there is no such member."""
    member = archive.getmember(name)
    source = archive.extractfile(member)
    if source is None or member.size > TEXT_LIMIT_BYTES:
        raise BadArchive(f"{name} in it is no small file")
    with source:
        return source.read(TEXT_LIMIT_BYTES)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _copy(
    source: tarfile.TarFile, place: str, target: tarfile.TarFile, name: str, copied: Callable[[int], None]
) -> None:
    """Follows links inside the archive: some engines write a layer once and name it twice."""
    data = source.extractfile(source.getmember(place))
    if data is None:
        raise BadArchive(f"{place} in it is no file")
    with data:
        member = tarfile.TarInfo(name)
        member.size = data.seek(0, io.SEEK_END)
        data.seek(0)
        target.addfile(member, data)
        copied(member.size)
