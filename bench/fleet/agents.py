"""Many agents in one process: the engine, loop and connection of a real one each, without a machine beneath.

Their guests are modelled: each begins when it is told to and ends when it is told to. Everything that crosses
the network is what a real agent says.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys

from gpunion.adapters.http.link import HttpLink
from gpunion.agent.link.connection import Connection
from gpunion.agent.loop import AgentLoop
from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.protocol.commit import SavedAgent
from gpunion.domain.protocol.effects import AgentEffect, KillGuest, StartGuest, TerminateGuest
from gpunion.domain.protocol.events import GuestExited, GuestStarted
from gpunion.domain.protocol.frames import GpuReading, GpuReadings, Progress
from gpunion.domain.resources import GIB, Capacity, Gpu
from gpunion.domain.timing import Timing
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.ports.clock import BootClock


class Forgetful:
    """No disk: a bench of the coordinator must not be one of a hundred disks on one."""

    def write(self, saved: SavedAgent) -> None:
        return


class FleetAgent:
    def __init__(self, url: str, name: str, credential: str, gpus: int) -> None:
        self.name = name
        self._chance = random.Random(name)
        self._clock = BootClock()
        cards = tuple(
            Gpu(index=index, model="A100", memory_bytes=40 * GIB, declared=False) for index in range(gpus)
        )
        facts = NodeFacts(
            lab=f"lab-{sum(name.encode()) % 12}",
            capacity=Capacity(gpus=cards, cpus=8.0 * gpus, memory_bytes=64 * GIB, uplink_bps=1e9),
        )
        saved = SavedAgent(incarnation=f"{name}-1")
        self.station = PureAgent(node_id=NodeId(name), facts=facts, saved=saved, timing=Timing())
        self.loop = AgentLoop(
            station=self.station,
            disk=Forgetful(),  # type: ignore[arg-type]
            clock=self._clock,
            perform=self._perform,
            committed=lambda commit, took_ms: None,
        )
        self._link = HttpLink(url, credential)
        self.connection = Connection(
            loop=self.loop,
            link=self._link,
            clock=self._clock,
            progress=self._progress,
            readings=self._readings,
        )

    async def run(self) -> None:
        await asyncio.gather(self.loop.run(), self.connection.run())

    def _perform(self, effect: AgentEffect) -> None:
        match effect:
            case StartGuest():
                self.loop.post(
                    GuestStarted(run_id=effect.order.run_id, restored=None, resumed_step=0, restore_s=0.0)
                )
            case KillGuest() | TerminateGuest():
                self.loop.post(GuestExited(run_id=RunId(effect.run_id), exit_code=143, last_step=0))
            case _:
                return

    def _progress(self) -> tuple[Progress, ...]:
        guests = self.station.engine.state.guests.values()
        return tuple(
            Progress(run_id=guest.run_id, step=self._chance.randrange(10**6), progress=0.5)
            for guest in guests
            if guest.living
        )

    def _readings(self) -> GpuReadings:
        return GpuReadings(
            gpus=tuple(
                GpuReading(
                    index=gpu.index,
                    uuid=f"GPU-{self.name}-{gpu.index}",
                    utilisation=self._chance.random(),
                    memory_used_bytes=self._chance.randrange(40 * GIB),
                    temperature_c=self._chance.uniform(30, 85),
                    power_w=self._chance.uniform(50, 400),
                )
                for gpu in self.station.facts.capacity.gpus
            )
        )


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--gpus", type=int, required=True)
    asked = parser.parse_args()
    credentials: dict[str, str] = json.loads(sys.stdin.readline())
    agents = [FleetAgent(asked.url, name, credential, asked.gpus) for name, credential in credentials.items()]
    await asyncio.gather(*(agent.run() for agent in agents))


if __name__ == "__main__":
    asyncio.run(main())
