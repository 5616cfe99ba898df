"""What an owner sees: first what is running on their machine, then how to stop it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from gpunion._version import __version__
from gpunion.agent.dependencies import World
from gpunion.agent.link.connection import Connection
from gpunion.agent.loop import AgentLoop
from gpunion.agent.machine.disk_watch import DiskWatch
from gpunion.agent.machine.gpu_status import gpu_rows
from gpunion.agent.machine.gpu_watch import GpuWatch
from gpunion.agent.program.messages import read_reached
from gpunion.agent.settings import THROUGH_COORDINATOR, Settings
from gpunion.agent.terms.editor import TermsDesk
from gpunion.agent.terms.signs import SignWatch
from gpunion.agent.terms.watch import TermsWatch
from gpunion.domain.jobs.guest import Guest, OwnerState
from gpunion.domain.nodes.withheld import HoldCause


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusBoard:
    settings: Settings
    world: World
    loop: AgentLoop
    connection: Connection
    watch: GpuWatch | None = None
    disk: DiskWatch | None = None
    terms: TermsDesk | None = None
    times: TermsWatch | None = None
    signs: SignWatch | None = None
    keeping: Callable[[], dict[str, Any]] | None = None  # where the owner lends disk

    def status(self) -> dict[str, Any]:
        station = self.loop.station
        state = station.engine.state
        guests = [self._guest(guest) for _, guest in sorted(state.guests.items())]
        lease_until_s = state.lease_until_s
        return {
            "guests": guests,
            "how_to_stop": [f"gpunion reclaim --notice {station.facts.terms.notice_s:g}s", "gpunion kill"]
            if guests
            else [],
            "tenure": state.holding.owner_state.value,
            "because": self._because(),
            "terms": None if self.terms is None else {**self.terms.shown(), **self._lending()},
            "signs": None if self.signs is None else self.signs.shown(),
            "deadline_in_s": self.deadline_in_s(),
            "leaving": state.holding.leaving,
            "killed": state.holding.killed,
            "coordinator": {
                "url": self.settings.coordinator,
                "connected": station.connected,
                "trouble": "" if station.connected else self.connection.trouble,
                "unsent_reports": len(station.reports.waiting),
            },
            "lease_left_s": None
            if lease_until_s is None
            else max(0.0, lease_until_s - self.world.clock.now_s()),
            # With what the owner's terms add to the lease, as far as the coordinator knows of it.
            "guests_end_in_s": None
            if lease_until_s is None
            else max(0.0, lease_until_s + station.engine.facts.terms.autonomy_s - self.world.clock.now_s()),
            "runtime": {
                "name": self.world.runtime.name,
                "sandboxed": self.world.runtime.sandboxed,
                "described": self.world.runtime.describe(),
            },
            "node_id": self.settings.node_id,
            "lab": self.settings.lab,
            "gpus": gpu_rows(station, self.watch, self.world.clock.now_s()),
            "gpus_not_seen": "" if self.watch is None else self.watch.last.trouble,
            "images": None if self.world.images is None else self.world.images.shown(),
            "vault": str(self.settings.vault or THROUGH_COORDINATOR),
            "vault_trouble": station.facts.vault_trouble,
            "keeps": None if self.keeping is None else self.keeping(),
            "unsent": [] if self.world.outputs is None else self.world.outputs.shown(),
            "disk": None if self.disk is None else self.disk.shown(),
            "disk_trouble": self.loop.forgettable,
            "state_dir": str(self.settings.state_dir),
            "pid": os.getpid(),
            "version": __version__,
        }

    def _because(self) -> str:
        """Why it is withheld, where the owner's terms say so and not they themselves."""
        holding = self.loop.station.engine.state.holding
        if holding.cause is not HoldCause.TERMS or holding.owner_state is OwnerState.SHARING:
            return ""
        now = "" if self.times is None else self.times.forecast().because
        return now or holding.detail

    def _lending(self) -> dict[str, Any]:
        if self.times is None:
            return {"lent_now": True, "changes_at": None, "lent_in_spite": False}
        forecast = self.times.forecast()
        return {
            "lent_now": forecast.lent,
            "changes_at": None if forecast.changes_s is None else self.times.on_the_wall(forecast.changes_s),
            "lent_in_spite": self.times.lent_in_spite,
        }

    def out_of_hours(self) -> str:
        """Why the owner's hours would not have it lent now; empty where they have."""
        return "" if self.times is None else self.times.forecast().because

    def deadline_in_s(self) -> float | None:
        deadline_s = self.loop.station.engine.state.holding.deadline_s
        return None if deadline_s is None else self.seconds_until(deadline_s)

    def seconds_until(self, at_s: float) -> float:
        return max(0.0, at_s - self.world.clock.now_s())

    def _preparing(self, guest: Guest) -> dict[str, Any] | None:
        images = self.world.images
        told = (*(() if images is None else images.preparing()), *self.world.preparing.all())
        return next((asdict(words) for words in told if words.run_id == guest.run_id), None)

    def _saving(self, guest: Guest) -> dict[str, Any] | None:
        note = self.world.saves.note_of(guest, self.world.clock.now_s())
        return None if note is None else asdict(note)

    def _parked(self, guest: Guest) -> dict[str, Any] | None:
        """In how much of the owner's memory, since when, and for whom: for a job, or for themselves."""
        if not guest.parked:
            return None
        for_s = max(0.0, self.world.clock.now_s() - guest.parked_s)
        return {"for_job": guest.room_for, "for_s": for_s, "memory_bytes": guest.parked_bytes}

    def _guest(self, guest: Guest) -> dict[str, Any]:
        note = self.world.run_notes.get(guest.run_id)
        reached = None if note is None else read_reached(self.world.control, note.paths)
        since = None if note is None else datetime.fromtimestamp(note.since_unix_s, UTC)
        return {
            "run_id": guest.run_id,
            "job_id": guest.job_id,
            "name": guest.name,
            "user": guest.user,
            "lab": guest.lab,
            "epoch": guest.epoch,
            "phase": guest.phase.value if guest.parking is None else guest.parking.value,
            "parked": self._parked(guest),
            "leaves_because": guest.leave_why,
            "gpus": list(guest.grant.gpu_indices),
            "step": guest.last_step if reached is None else max(guest.last_step, reached.step),
            "progress": 0.0 if reached is None else reached.progress,
            "since": None if since is None else since.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "preparing": self._preparing(guest),
            "saving": self._saving(guest),
            "session": guest.session,
            "streams": self.world.gate.leading_to(guest.run_id),
            "entered": self.world.gate.entered(guest.run_id),
        }
