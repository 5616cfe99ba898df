"""A runtime whose guests are entries of a table."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from gpunion.ports.runtime import ExitReason, GuestPaths, GuestSpec, GuestStatus, RuntimeFault


class FakeRuntime:
    """Guests as entries of a table. `journal` says what was asked for, in order."""

    name = "fake"
    sandboxed = True

    def __init__(self, root: Path, journal: list[str]) -> None:
        self.root = root
        self.journal = journal
        self.table: dict[str, GuestStatus] = {}
        self.ended: dict[str, asyncio.Event] = {}
        self.start_fault: RuntimeFault | None = None
        self.kill_faults = 0
        self.environment: dict[str, str] = {}  # of the guest prepared last

    unenforced: tuple[str, ...] = ()

    def describe(self) -> str:
        return "no guests at all"

    def paths(self, run_id: str) -> GuestPaths:
        root = self.root / run_id
        return GuestPaths(
            root=root,
            checkpoint_dir=root / "checkpoint",
            control_dir=root / "control",
            output_dir=root / "output",
            scratch_dir=root / "scratch",
            log_file=root / "log.txt",
        )

    async def prepare(self, spec: GuestSpec) -> GuestPaths:
        self.journal.append(f"prepare {spec.run_id} resume={spec.resume}")
        self.environment = dict(spec.environment)
        paths = await self.prepare_paths(spec.run_id)
        self.put(spec.run_id, spec.job_id, spec.epoch, alive=False)
        return paths

    async def prepare_paths(self, run_id: str) -> GuestPaths:
        paths = self.paths(run_id)
        for path in (paths.checkpoint_dir, paths.control_dir, paths.output_dir, paths.work_dir):
            path.mkdir(parents=True, exist_ok=True)
        paths.log_file.touch()
        return paths

    def put(self, run_id: str, job_id: str, epoch: int, *, alive: bool) -> None:
        self.table[run_id] = GuestStatus(
            run_id=run_id, job_id=job_id, epoch=epoch, alive=alive, exit_code=None, exit_reason=None
        )
        self.ended.setdefault(run_id, asyncio.Event())

    async def start(self, spec: GuestSpec) -> None:
        self.journal.append(f"start {spec.run_id}")
        if self.start_fault is not None:
            raise self.start_fault
        if self.table[spec.run_id].exit_reason is None:
            self.put(spec.run_id, spec.job_id, spec.epoch, alive=True)

    async def limit(self, run_id: str, lease_until_s: float | None, kill_at_s: float | None) -> None:
        self.journal.append(f"limit {run_id} {lease_until_s} {kill_at_s}")

    async def signal(self, run_id: str, signum: int) -> None:
        self.journal.append(f"signal {run_id} {signum}")

    def end(self, run_id: str, exit_code: int | None, reason: ExitReason) -> None:
        if self.table[run_id].exit_reason is None:
            self.table[run_id] = replace(
                self.table[run_id], alive=False, exit_code=exit_code, exit_reason=reason
            )
        self.ended[run_id].set()

    async def kill(self, run_id: str, reason: ExitReason) -> GuestStatus | None:
        self.journal.append(f"kill {run_id} {reason}")
        if self.kill_faults:
            self.kill_faults -= 1
            raise RuntimeFault("stuck", temporary=True)
        if run_id not in self.table:
            return None
        self.end(run_id, 137, reason)
        return self.table[run_id]

    async def status(self, run_id: str) -> GuestStatus | None:
        return self.table.get(run_id)

    async def guests(self) -> tuple[GuestStatus, ...]:
        return tuple(self.table.values())

    async def wait_exit(self, run_id: str) -> GuestStatus:
        if run_id not in self.table:
            raise RuntimeFault("unknown", temporary=False)
        await self.ended[run_id].wait()
        return self.table[run_id]

    async def remove(self, run_id: str) -> None:
        self.journal.append(f"remove {run_id}")
        self.table.pop(run_id, None)
