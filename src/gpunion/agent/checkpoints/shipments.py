"""What of one guest is on its way to the vault: one shipment at a time, and the newest counts."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gpunion.agent.checkpoints.shipping import (
    DETAIL_LIMIT_CHARS,
    Cancelled,
    Shipment,
    ship_checkpoint,
    ship_output,
)
from gpunion.agent.checkpoints.written_elsewhere import written_elsewhere
from gpunion.agent.dependencies import World
from gpunion.agent.run_records.notes import RunNote
from gpunion.agent.tasks import GuestTasks, in_own_thread
from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.protocol.effects import ShipCheckpoint
from gpunion.domain.protocol.events import CheckpointNotShipped, OutputShipped


class Shipments:
    def __init__(self, world: World, run_id: RunId, tasks: GuestTasks) -> None:
        self._world = world
        self._run_id = run_id
        self._tasks = tasks
        self._under_way: tuple[Cancelled, asyncio.Task[None]] | None = None

    def ship(self, effect: ShipCheckpoint, *, still: bool) -> None:
        """`still`: nobody writes there any more."""
        note = self._world.run_notes.get(self._run_id)
        if note is None:
            self._world.post(_not_shipped(effect, CheckpointTrouble.NO_GUEST))
            return
        cancelled = self._replace()
        shipment = Shipment(effect=effect, note=note, still=still, cancelled=cancelled)
        self._under_way = (cancelled, self._tasks.begin(self._ship(shipment, self._under_way)))

    async def _ship(self, shipment: Shipment, before: tuple[Cancelled, asyncio.Task[None]] | None) -> None:
        if before is not None:
            await asyncio.wait([before[1]])  # it was cancelled; both would use the same place
        try:
            outcome = await in_own_thread(lambda: ship_checkpoint(self._world, shipment))
        except Exception:
            self._world.post(_not_shipped(shipment.effect, CheckpointTrouble.VAULT_UNAVAILABLE))
            raise
        self._world.post(outcome)

    def ship_output(self, step: int, keep: CheckpointId | None) -> None:
        note = self._world.run_notes.get(self._run_id)
        if note is None:
            detail = "its output could not be saved: its directories are gone"
            self._world.post(OutputShipped(run_id=self._run_id, output=None, detail=detail))
            return
        cancelled = self._replace()
        shipping = self._ship_output(note, step, keep, cancelled)
        self._under_way = (cancelled, self._tasks.begin(shipping))

    async def _ship_output(
        self, note: RunNote, step: int, keep: CheckpointId | None, cancelled: Cancelled
    ) -> None:
        try:
            outcome = await in_own_thread(lambda: ship_output(self._world, note, step, keep, cancelled))
            elsewhere = await asyncio.to_thread(written_elsewhere, note)
        except Exception as bug:
            detail = f"its output could not be saved: a fault in the agent ({bug!r})"
            self._world.post(OutputShipped(run_id=self._run_id, output=None, detail=detail))
            raise
        told = "; ".join(filter(None, [outcome.left_out, elsewhere]))
        self._world.post(replace(outcome, left_out=told[:DETAIL_LIMIT_CHARS]))

    def cancel(self) -> None:
        if self._under_way is not None:
            self._under_way[0].ask()

    def _replace(self) -> Cancelled:
        self.cancel()
        return Cancelled()


def _not_shipped(effect: ShipCheckpoint, trouble: CheckpointTrouble) -> CheckpointNotShipped:
    return CheckpointNotShipped(run_id=effect.run_id, checkpoint_id=effect.checkpoint_id, trouble=trouble)
