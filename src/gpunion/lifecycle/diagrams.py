"""All machines by name, for the documentation and for tests that walk them."""

from __future__ import annotations

from typing import Any

from gpunion.lifecycle.checkpoint import CHECKPOINT
from gpunion.lifecycle.job import JOB
from gpunion.lifecycle.migration import MIGRATION
from gpunion.lifecycle.node import NODE
from gpunion.lifecycle.run import RUN
from gpunion.lifecycle.state_machine import Machine

MACHINES: dict[str, Machine[Any]] = {m.name: m for m in (JOB, RUN, NODE, CHECKPOINT, MIGRATION)}
