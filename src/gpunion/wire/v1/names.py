"""Words that requests and answers share, and what they may look like."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from gpunion.domain.image import parse_image
from gpunion.domain.lockfile import refuse_other_kinds
from gpunion.domain.tree import check_path
from gpunion.wire.v1 import patterns

ARGUMENT_LIMIT_CHARS = 32 * 1024  # of one word; `wishes` limits them all together

Name = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=patterns.ONE_LINE)]
Lab = Annotated[str, StringConstraints(max_length=64, pattern=patterns.WORD)]
Argument = Annotated[str, StringConstraints(max_length=ARGUMENT_LIMIT_CHARS, pattern=r"^[^\x00]*$")]
VariableName = Annotated[str, StringConstraints(max_length=128, pattern=patterns.VARIABLE_NAME)]
PlaceName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


def _names_an_image(text: str) -> str:
    parse_image(text)
    return text


ImageName = Annotated[str, Field(max_length=300), AfterValidator(_names_an_image)]
Model = Annotated[str, StringConstraints(min_length=1, max_length=128)]
PhaseName = Literal[
    "pending",
    "starting",
    "running",
    "leaving",
    "migrating",
    "stopping",
    "finishing",
    "succeeded",
    "failed",
    "cancelled",
]


def _stays_inside(path: str) -> str:
    check_path(path)
    refuse_other_kinds(path)
    return path


Lockfile = Annotated[str, Field(max_length=1024), AfterValidator(_stays_inside)]
