"""Words that requests and answers share, and what they may look like."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from gpunion.domain.environment import NAME_LIMIT_CHARS, check_name
from gpunion.domain.image import parse_image
from gpunion.domain.lockfile import refuse_other_kinds
from gpunion.limits import SSH_KEY_MAX_CHARS
from gpunion.vault.tree import check_path
from gpunion.wire.v1 import patterns

ARGUMENT_LIMIT_CHARS = 32 * 1024  # of one word; `wishes` limits them all together

Name = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=patterns.ONE_LINE)]
Lab = Annotated[str, StringConstraints(max_length=64, pattern=patterns.WORD)]
Argument = Annotated[str, StringConstraints(max_length=ARGUMENT_LIMIT_CHARS, pattern=r"^[^\x00]*$")]
VariableName = Annotated[str, StringConstraints(max_length=128, pattern=patterns.VARIABLE_NAME)]
SshKey = Annotated[
    str, StringConstraints(min_length=1, max_length=SSH_KEY_MAX_CHARS, pattern=patterns.SSH_KEY)
]
PlaceName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Digest = Annotated[str, StringConstraints(max_length=64, pattern=r"^[0-9a-f]{64}$")]


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
    "between",
    "stopping",
    "finishing",
    "held",
    "succeeded",
    "failed",
    "cancelled",
]


def _stays_inside(path: str) -> str:
    check_path(path)
    refuse_other_kinds(path)
    return path


Lockfile = Annotated[str, Field(max_length=1024), AfterValidator(_stays_inside)]
EnvironmentName = Annotated[str, Field(max_length=NAME_LIMIT_CHARS), AfterValidator(check_name)]
NodeName = Annotated[str, StringConstraints(max_length=63, pattern=patterns.NODE_NAME)]
