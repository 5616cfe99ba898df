"""What one modelled machine's agent works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpunion.domain.ids import JobId
from gpunion.sim.kernel import Kernel
from gpunion.sim.machine.runtime import GuestRuntime
from gpunion.sim.machine.shelf import Shelf
from gpunion.sim.network.topology import Topology
from gpunion.sim.observer import Watch
from gpunion.sim.scenario.values import Program
from gpunion.sim.vault import ModelVault


@dataclass(frozen=True, slots=True)
class Place:
    kernel: Kernel
    runtime: GuestRuntime
    vault: ModelVault
    topology: Topology
    programs: Mapping[JobId, Program]
    watch: Watch
    shelf: Shelf = field(default_factory=Shelf)
    keeps: bool = False  # others may fetch from it, so what is saved on it stays on it
