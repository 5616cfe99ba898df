"""Ships what guests saved and made from a modelled machine to the vault, one shipment a guest."""

from __future__ import annotations

from collections.abc import Callable

from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.protocol.effects import ShipCheckpoint, ShipOutput
from gpunion.domain.protocol.events import CheckpointNotShipped, CheckpointShipped, OutputShipped
from gpunion.domain.system_tier import Tier
from gpunion.sim.machine.place import Place
from gpunion.sim.network.flows import Flow
from gpunion.sim.program.box import Box
from gpunion.sim.vault import Sealed

Shipped = CheckpointShipped | CheckpointNotShipped | OutputShipped


class Shipments:
    """Those of one life of one agent; they die with it."""

    def __init__(self, place: Place, tell: Callable[[Shipped], None]) -> None:
        self._place = place
        self._tell = tell
        self._under_way: dict[RunId, tuple[ShipCheckpoint | ShipOutput, Flow]] = {}

    def stop(self) -> None:
        for run_id in list(self._under_way):
            self.end(run_id)

    def end(self, run_id: RunId) -> None:
        current = self._under_way.pop(run_id, None)
        if current is not None:
            self._place.topology.network.cancel(current[1])
            box = self._place.runtime.boxes.get(run_id)
            if box is not None:
                self._place.vault.arrived(box.job_id)
                self._place.watch.shipping_ended(box, current[1])

    def ship_checkpoint(self, effect: ShipCheckpoint) -> None:
        box = self._place.runtime.boxes.get(effect.run_id)
        step = None if box is None else box.saved_step(effect.checkpoint_id)
        if box is None or step is None:
            self._not_shipped(effect, CheckpointTrouble.NO_GUEST)
            return
        if not self._replace(effect):
            return
        program = self._place.programs[box.job_id]
        first = not self._place.vault.has_any(box.job_id)
        added_bytes = program.state_bytes if first else min(program.delta_bytes, program.state_bytes)
        sealed = Sealed(
            checkpoint_id=effect.checkpoint_id,
            job_id=box.job_id,
            epoch=box.order.epoch,
            step=program.told(step),
            reached=step,
            size_bytes=program.state_bytes,
            added_bytes=added_bytes,
            keep=effect.keep,
            whole=effect.tier is Tier.SYSTEM,
        )
        self._send(effect, box, added_bytes, effect.rate_bps, lambda: self._arrived(effect, box, sealed))

    def _arrived(self, effect: ShipCheckpoint, box: Box, sealed: Sealed) -> None:
        self.end(effect.run_id)
        again = self._place.vault.get(sealed.job_id, sealed.checkpoint_id) is not None
        trouble = self._place.vault.seal(sealed)
        if trouble is not None:
            self._not_shipped(effect, trouble)
            return
        if self._place.keeps:
            self._place.shelf.keep(self._place.vault.latest(sealed.job_id) or sealed)
        if not again:  # else nothing was made durable now: it was told twice
            self._place.watch.vault_sealed(sealed)
        self._tell(
            CheckpointShipped(
                run_id=effect.run_id,
                checkpoint_id=effect.checkpoint_id,
                step=effect.step,
                progress=effect.progress,
                size_bytes=sealed.size_bytes,
                shipped_bytes=sealed.added_bytes,
            )
        )

    def _not_shipped(self, effect: ShipCheckpoint, trouble: CheckpointTrouble) -> None:
        self._tell(
            CheckpointNotShipped(run_id=effect.run_id, checkpoint_id=effect.checkpoint_id, trouble=trouble)
        )

    def ship_output(self, effect: ShipOutput) -> None:
        box = self._place.runtime.boxes.get(effect.run_id)
        size_bytes = 0 if box is None else self._place.programs[box.job_id].output_bytes
        if box is None or size_bytes == 0:
            self._tell(OutputShipped(run_id=effect.run_id, output=None))
            return
        if self._replace(effect):
            self._send(effect, box, size_bytes, 0.0, lambda: self._output_arrived(box))

    def _output_arrived(self, box: Box) -> None:
        self.end(box.run_id)
        if self._place.vault.epochs.get(box.job_id, 0) > box.order.epoch:
            self._tell(OutputShipped(run_id=box.run_id, output=None, detail="a newer run has begun"))
            return
        self._tell(OutputShipped(run_id=box.run_id, output=CheckpointId(f"{box.run_id}-output")))

    def _send(
        self,
        effect: ShipCheckpoint | ShipOutput,
        box: Box,
        size_bytes: int,
        rate_bps: float,
        then: Callable[[], None],
    ) -> None:
        links = self._place.topology.to_vault(box.node_id)
        flow = self._place.topology.network.start(
            f"ship {box.run_id}", links, size_bytes, then, cap_bps=rate_bps or None
        )
        self._under_way[box.run_id] = (effect, flow)
        if isinstance(effect, ShipCheckpoint):
            self._place.vault.arrives(box.job_id, flow)
        name = effect.checkpoint_id if isinstance(effect, ShipCheckpoint) else "output"
        self._place.watch.shipping_began(box, flow, name)

    def _replace(self, effect: ShipCheckpoint | ShipOutput) -> bool:
        """One shipment per guest. False: this very one is already on its way."""
        current = self._under_way.get(effect.run_id)
        if current is None:
            return True
        if current[0] == effect:
            return False
        self.end(effect.run_id)
        if isinstance(current[0], ShipCheckpoint):
            self._not_shipped(current[0], CheckpointTrouble.SUPERSEDED)
        return True
