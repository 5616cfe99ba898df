"""Who this program is among the members of its gang.

    from gpunion.sdk.job import gang

    shard = dataset[gang.rank() :: gang.size()]

All members run at the same time, each on GPUs of its own, maybe on other machines. When a save is wanted, all
are asked to save at the same step, so that a gang goes on from one step after a move; `training` and the
adapters beside it do that. Outside GPUnion, and in a job that is no gang, there is one member: rank 0 of 1.
"""

from __future__ import annotations

import os


def rank() -> int:
    """0 for the first member."""
    return _number("GPUNION_GANG_RANK", 0)


def size() -> int:
    return _number("GPUNION_GANG_SIZE", 1)


def _number(name: str, otherwise: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else otherwise
