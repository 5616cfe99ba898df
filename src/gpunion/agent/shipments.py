"""What of one guest is on its way to the vault: one shipment at a time, and the newest counts."""

from __future__ import annotations

import asyncio

from gpunion.agent.guest_tasks import GuestTasks
from gpunion.agent.run_notes import RunNote
from gpunion.agent.shipping import Cancelled, Shipment, ship_checkpoint, ship_output
from gpunion.agent.threads import in_own_thread
from gpunion.agent.world import World
from gpunion.domain.checkpoint import CheckpointTrouble
from gpunion.domain.effects import ShipCheckpoint
from gpunion.domain.events import CheckpointNotShipped, OutputShipped
from gpunion.domain.ids import CheckpointId, RunId


class Shipments:
    def __init__(self, world: World, run_id: RunId, tasks: GuestTasks) -> None:
        self._world = world
        self._run_id = run_id
        self._tasks = tasks
        self._under_way: tuple[Cancelled, asyncio.Task[None]] | None = None

    def ship(self, effect: ShipCheckpoint, *, still: bool) -> None:
        """`still`: nobody writes there any more."""
        note = self._world.notebook.get(self._run_id)
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
        note = self._world.notebook.get(self._run_id)
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
        except Exception as bug:
            detail = f"its output could not be saved: a fault in the agent ({bug!r})"
            self._world.post(OutputShipped(run_id=self._run_id, output=None, detail=detail))
            raise
        self._world.post(outcome)

    def cancel(self) -> None:
        if self._under_way is not None:
            self._under_way[0].ask()

    def _replace(self) -> Cancelled:
        self.cancel()
        return Cancelled()


def _not_shipped(effect: ShipCheckpoint, trouble: CheckpointTrouble) -> CheckpointNotShipped:
    return CheckpointNotShipped(run_id=effect.run_id, checkpoint_id=effect.checkpoint_id, trouble=trouble)
