"""The modelled vault: epochs fence, sealed checkpoints stay, a full disk refuses. It is never lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter

from gpunion.domain.ids import CheckpointId, JobId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.sim.network.flows import Flow

_age = attrgetter("epoch", "step")
KEEP = 3  # sealed checkpoints kept per job; the real vault keeps at least two


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    checkpoint_id: CheckpointId
    job_id: JobId
    epoch: int
    step: int  # as its program says
    size_bytes: int
    added_bytes: int
    written_bytes: int = 0  # all that its job has had written by then
    keep: CheckpointId | None = None  # stays, and all that come after it
    reached: int = 0  # the step its program goes on from
    whole: bool = False  # a dump: not every machine brings it back


class Ruin(StrEnum):
    """What is wrong with a save that was sealed all the same."""

    GARBAGE = "garbage"  # its program cannot read what it wrote
    BLOCKS = "blocks"  # the vault cannot read its blocks any more


class ModelVault:
    def __init__(self) -> None:
        self.full = False
        self.spoil: Callable[[CheckpointId], Ruin | None] = lambda _: None
        self.ruined: dict[CheckpointId, Ruin] = {}
        self.epochs: dict[JobId, int] = {}
        self.written_bytes: dict[JobId, int] = {}
        self.arriving: dict[JobId, Flow] = {}  # a save that is being sent here
        self.followers: dict[JobId, Callable[[Flow], None]] = {}  # who wants to be told of the next
        self._sealed: dict[JobId, dict[CheckpointId, Sealed]] = {}

    def begin(self, job_id: JobId, epoch: int) -> bool:
        """Fences every older epoch. False: this one is itself too old."""
        if epoch < self.epochs.get(job_id, 0):
            return False
        self.epochs[job_id] = epoch
        return True

    def seal(self, sealed: Sealed) -> CheckpointTrouble | None:
        kept = self._sealed.setdefault(sealed.job_id, {})
        if sealed.checkpoint_id in kept:
            return None  # again is fine, even when its epoch has become old since
        if sealed.epoch < self.epochs.get(sealed.job_id, 0):
            return CheckpointTrouble.OLD_EPOCH
        if self.full:
            return CheckpointTrouble.VAULT_FULL
        written_bytes = self.written_bytes.get(sealed.job_id, 0) + sealed.added_bytes
        self.written_bytes[sealed.job_id] = written_bytes
        kept[sealed.checkpoint_id] = replace(sealed, written_bytes=written_bytes)
        ruin = self.spoil(sealed.checkpoint_id)
        if ruin is not None and not sealed.whole:  # a program saves garbage; a dump is the machine's own
            self.ruined[sealed.checkpoint_id] = ruin
        if len(kept) > KEEP:
            self._forget(kept, sealed.keep)
        return None

    def _forget(self, kept: dict[CheckpointId, Sealed], keep: CheckpointId | None) -> None:
        for old in sorted(kept.values(), key=_age)[:-KEEP]:
            if keep is not None and (old.checkpoint_id == keep or keep not in kept):
                return
            del kept[old.checkpoint_id]

    def arrives(self, job_id: JobId, flow: Flow) -> None:
        self.arriving[job_id] = flow
        follower = self.followers.pop(job_id, None)
        if follower is not None:
            follower(flow)

    def arrived(self, job_id: JobId) -> None:
        """It has come, or was broken off."""
        self.arriving.pop(job_id, None)

    def follow(self, job_id: JobId, follower: Callable[[Flow], None]) -> None:
        """Tells of the save under way, or of the next."""
        flow = self.arriving.get(job_id)
        if flow is None:
            self.followers[job_id] = follower
        else:
            follower(flow)

    def latest(
        self, job_id: JobId, spoiled: tuple[CheckpointId, ...] = (), *, dumps: bool = True
    ) -> Sealed | None:
        sealed = self._sealed.get(job_id, {})
        if spoiled:
            sealed = {name: one for name, one in sealed.items() if name not in spoiled}
        if not dumps:
            sealed = {name: one for name, one in sealed.items() if not one.whole}
        return max(sealed.values(), key=_age, default=None)

    def get(self, job_id: JobId, checkpoint_id: CheckpointId) -> Sealed | None:
        return self._sealed.get(job_id, {}).get(checkpoint_id)

    def has_any(self, job_id: JobId) -> bool:
        return bool(self._sealed.get(job_id))
