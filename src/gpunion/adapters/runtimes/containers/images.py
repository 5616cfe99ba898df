"""The images of a container engine, found by what they hold and never by what they are called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from gpunion.adapters.runtimes.containers.container_command import CALL_LIMIT_S, Engine, EngineTrouble
from gpunion.domain.image import DIGEST_PREFIX, Image
from gpunion.domain.image_settings import ImageSettings, image_settings
from gpunion.ports.images import ImageFault

# Tens of gigabytes onto a slow disk. An engine that takes longer is stuck.
LOAD_LIMIT_S = 1800.0
NO_ROOM_WORDS = ("no space left", "disk quota exceeded")
IN_USE_WORDS = ("is using", "in use", "used by", "being used", "must be forced")
FACTS = "{{.Id}}\t{{json .RepoDigests}}\t{{json .RepoTags}}\t{{.Size}}"


class EngineImages:
    """Implements `ports.images.Images`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, image: Image) -> str | None:
        """By the digest of its configuration, which is its id, or of its manifest in a registry.

        The engine is asked what it found: an answer that bears another digest does not count.
        """
        for asked in (f"{DIGEST_PREFIX}{image.digest}", f"{repository(image.name)}@sha256:{image.digest}"):
            found = self._facts(asked)
            if found is not None and found.is_one(image.digest):
                return found.id
        return None

    def called(self, name: str) -> str | None:
        found = self._facts(name)
        return None if found is None else found.id

    def size_bytes(self, image_id: str) -> int:
        found = self._facts(image_id)
        return 0 if found is None else found.size_bytes

    def settings(self, image_id: str) -> ImageSettings:
        """What its makers meant to be run in it."""
        try:
            told = json.loads(self._engine.call("image", "inspect", "--format", "{{json .Config}}", image_id))
            return image_settings(told if isinstance(told, Mapping) else {})
        except EngineTrouble as trouble:
            raise ImageFault(f"{self._engine.name}: {trouble}") from trouble
        except ValueError as error:
            raise ImageFault(f"the configuration of image {image_id} cannot be used: {error}") from error

    def load(self, archive: Path) -> None:
        self._call("load", "--input", str(archive), limit_s=LOAD_LIMIT_S)

    def pull(self, image: Image) -> None:
        self._call("pull", f"{repository(image.name)}@sha256:{image.digest}", limit_s=LOAD_LIMIT_S)

    def remove(self, image_id: str) -> bool:
        """Without force: the engine itself knows best whether a container still needs it."""
        found = self._facts(image_id)
        if found is None:
            return True
        if found.tags:
            return False
        try:
            self._call("image", "rm", image_id)
        except ImageFault as fault:
            if any(word in str(fault).lower() for word in IN_USE_WORDS):
                return False
            raise
        return True

    def _facts(self, asked: str) -> _Facts | None:
        try:
            return _Facts(self._engine.call("image", "inspect", "--format", FACTS, asked))
        except EngineTrouble as trouble:
            if trouble.absent:
                return None
            raise ImageFault(f"{self._engine.name}: {trouble}") from trouble

    def _call(self, *words: str, limit_s: float = CALL_LIMIT_S) -> None:
        try:
            self._engine.call(*words, limit_s=limit_s)
        except EngineTrouble as trouble:
            no_room = any(word in str(trouble).lower() for word in NO_ROOM_WORDS)
            raise ImageFault(f"{self._engine.name}: {trouble}", no_room=no_room) from trouble


class _Facts:
    """One line of `image inspect`."""

    def __init__(self, line: str) -> None:
        try:
            identity, digests, tags, size = line.split("\t")
            self.id = identity.removeprefix(DIGEST_PREFIX)
            self.digests: list[str] = json.loads(digests) or []
            self.tags: list[str] = json.loads(tags) or []
            self.size_bytes = int(size)
        except ValueError as error:
            raise ImageFault(f"the engine's answer makes no sense: {line[:200]!r}") from error

    def is_one(self, digest: str) -> bool:
        return self.id == digest or any(text.endswith(f"@sha256:{digest}") for text in self.digests)


def repository(name: str) -> str:
    """Without its tag: beside a digest it says nothing, and not every engine takes both."""
    head, colon, tail = name.rpartition(":")
    return name if not colon or "/" in tail else head
