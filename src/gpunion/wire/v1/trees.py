"""Directories and blocks as a client and a node ask for them; the bytes themselves are in `wire.trees`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from gpunion.wire.trees import BATCH_BLOCKS_MAX
from gpunion.wire.v1.strict import Answer, Strict

BlockName = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


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
