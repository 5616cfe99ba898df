"""How people reach the guests of this machine."""

from __future__ import annotations

from collections.abc import Callable

from gpunion.agent.compose.agent import Parts
from gpunion.agent.dependencies import World
from gpunion.agent.machine.gpu_watch import GpuWatch
from gpunion.agent.program.session_file import SessionNotes
from gpunion.agent.sessions.connection import TunnelConnection
from gpunion.agent.sessions.gate import StreamGate, why_not_reached
from gpunion.agent.sessions.serving import StreamServer
from gpunion.domain.ids import RunId
from gpunion.domain.protocol.frames import SessionNote
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.ports.gpus import GpuSight

# Of a GPU's time: a driver's own housekeeping is below.
AT_WORK = 0.05


def gate_of(station: PureAgent) -> StreamGate:
    def why_not(run_id: str) -> str:
        guest = station.engine.state.guests.get(RunId(run_id))
        return why_not_reached(guest, station.facts.terms.sessions)

    return StreamGate(why_not)


def session_notes(world: World, gpus: Callable[[], GpuWatch]) -> Callable[[], tuple[SessionNote, ...]]:
    def at_work(indices: tuple[int, ...]) -> bool:
        return any(sight.index in indices and _works(sight) for sight in gpus().last.gpus)

    notes = SessionNotes(world.control, world.gate, world.clock.now_s, at_work)
    return lambda: notes.read(world.run_notes.all())


def _works(sight: GpuSight) -> bool:
    return sight.utilisation is not None and sight.utilisation >= AT_WORK


def tunnel_of(parts: Parts, gate: StreamGate, station: PureAgent) -> TunnelConnection:
    def has_guests() -> bool:
        return any(guest.living for guest in station.engine.state.guests.values())

    return TunnelConnection(
        parts.tunnel, StreamServer(parts.guest_streams, gate, parts.caps.wait), has_guests
    )
