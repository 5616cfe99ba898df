"""What a node says to the vault through the coordinator; blocks and manifests travel as they are stored."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpunion.limits import EPOCH_MAX
from gpunion.vault.job_directories import BATCH_BLOCKS_MAX
from gpunion.wire.v1.job_directories import BlockName
from gpunion.wire.v1.strict import Answer, Strict

# A block and its head, and a manifest of the largest checkpoint there may be.
STORED_LIMIT_BYTES = 4 * 1024**2 + 4096
MANIFEST_LIMIT_BYTES = 64 * 1024**2

CheckpointName = Annotated[str, Field(min_length=1, max_length=128)]


class EpochIn(Strict):
    epoch: int = Field(ge=0, le=EPOCH_MAX)


class NamesIn(Strict):
    blocks: list[BlockName] = Field(max_length=BATCH_BLOCKS_MAX)


class NamesOut(Answer):
    blocks: list[str]


class HoldIn(Strict):
    checkpoint_id: CheckpointName


class HoldOut(Answer):
    hold: str


class KeepIn(Strict):
    keep: int = Field(ge=2, le=1000)


class ForgottenOut(Answer):
    checkpoints: list[str]


class ManifestsOut(Answer):
    manifests: list[str]  # each as the vault wrote it, checksum and all
