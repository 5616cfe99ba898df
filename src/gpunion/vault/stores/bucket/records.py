"""A sealed manifest as it lies in a bucket: the vault's own format, and the copies of blocks it rests on.

With the copies a reader need not look for blocks, and an upload knows what it builds on without asking.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from blake3 import blake3

from gpunion.vault import manifests as manifest_format
from gpunion.vault.manifest import BadManifest, Manifest
from gpunion.vault.stores.bucket.layout import Copy

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Record:
    """`manifest` is as it is stored: closed where the job has a key."""

    manifest: Manifest
    copies: tuple[Copy, ...]  # of its blocks

    @property
    def owner(self) -> str | None:
        return None if self.manifest.sealed is None else self.manifest.job_id


def encode(manifest: Manifest, copies: Iterable[Copy]) -> bytes:
    body = json.dumps(sorted(copy.key for copy in copies))
    return json.dumps(
        {
            "format": FORMAT,
            "manifest": manifest_format.encode(manifest).decode(),
            "copies": body,
            "blake3": blake3(body.encode()).hexdigest(),
        }
    ).encode()


def decode(data: bytes) -> Record:
    """`BadManifest` for anything that is not exactly what `encode` made."""
    try:
        found = json.loads(data)
        body = found["copies"]
        if found["format"] != FORMAT or blake3(body.encode()).hexdigest() != found["blake3"]:
            raise BadManifest("the manifest is damaged: its checksum does not match")
        copies = tuple(map(Copy, json.loads(body)))
        return Record(manifest_format.decode(found["manifest"].encode()), copies)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadManifest(f"the manifest is damaged: {error}") from error
