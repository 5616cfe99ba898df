"""Directories and blocks as clients and nodes ask for them; the bytes are `vault.job_directories`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from gpunion.vault.job_directories import BATCH_BLOCKS_MAX
from gpunion.wire.v1.strict import Answer, Strict

BlockName = Annotated[str, StringConstraints(max_length=64, pattern=r"^[0-9a-f]{64}$")]


class TreeOut(Answer):
    digest: str
    kept: bool
    missing: list[str]


class BlocksIn(Strict):
    blocks: list[BlockName] = Field(min_length=1, max_length=BATCH_BLOCKS_MAX)


class OutputBlocksIn(BlocksIn):
    checkpoint_id: str = Field(min_length=1, max_length=128)


class BlocksOut(Answer):
    blocks: int
    stored_bytes: int
