"""One guest of a fake world: started, asked to save, shipped."""

from __future__ import annotations

from gpunion.agent.guests.controller import GuestHands
from gpunion.domain.protocol.effects import AskToSave, ShipCheckpoint, StartGuest
from gpunion.domain.protocol.events import (
    GuestStarted,
)
from gpunion.domain.protocol.orders import StartRun
from tests.unit.agent.fakes import FakeWorld, until
from tests.unit.agent.values import RUN, a_checkpoint, an_order


def start(fake: FakeWorld, order: StartRun | None = None) -> GuestHands:
    hands = GuestHands(fake.world, RUN)
    hands.start(StartGuest(order=order or an_order(), lease_until_s=1010.0))
    return hands


async def started(fake: FakeWorld, order: StartRun | None = None) -> GuestHands:
    hands = start(fake, order)
    await until(lambda: fake.of(GuestStarted))
    fake.posted.clear()
    return hands


def ask(number: int = 1, *, final: bool = False, by_s: float | None = None) -> AskToSave:
    return AskToSave(run_id=RUN, checkpoint_id=a_checkpoint(number), final=final, by_s=by_s)


def save(fake: FakeWorld, number: int = 1, **message: object) -> None:
    control_dir = fake.runtime.paths(RUN).control_dir
    answer = {"id": a_checkpoint(number), "step": 7, "progress": 0.5, "files": ["state"], **message}
    fake.control.write_json(control_dir, "saved.json", answer)


def ship(number: int = 1, rate_bps: float = 0.0) -> ShipCheckpoint:
    return ShipCheckpoint(
        run_id=RUN, checkpoint_id=a_checkpoint(number), step=7, progress=0.5, rate_bps=rate_bps
    )


async def saved_guest(fake: FakeWorld) -> GuestHands:
    hands = await started(fake)
    paths = fake.runtime.paths(RUN)
    (paths.checkpoint_dir / "state").write_text("weights")
    (paths.checkpoint_dir / "half-written").write_text("no")
    (paths.output_dir / "metrics.csv").write_text("1,2")
    save(fake)
    return hands
