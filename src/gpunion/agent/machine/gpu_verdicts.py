"""What follows from what is seen on the GPUs: one is the owner's while they compute on it, one has failed.

Only thinks: looks go in, the owner's words come out. Whatever the owner says themselves stands above it; a
GPU they lend although it is in use or has failed is left alone until something new is seen on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpunion.agent.machine.gpu_users import GpuUser
from gpunion.domain.nodes.withheld import GpuPhase, HoldCause, WithheldGpu, withheld_of
from gpunion.domain.protocol.events import OwnerReclaimed, OwnerResumed
from gpunion.ports.gpus import GpuSight
from gpunion.text import counted

Word = OwnerReclaimed | OwnerResumed
Withheld = Sequence[WithheldGpu]

# Faults after which NVIDIA's documentation asks for a reset, a reboot or another card. The others are mostly
# a program's own doing (13, 31, 43, 45) or were contained (94).
FATAL_XIDS = {
    48: "an uncorrectable memory error",
    62: "its controller halted",
    64: "its memory could not be remapped",
    74: "a failed link",
    79: "it fell off the bus",
    95: "an uncontained memory error",
    119: "its firmware does not answer",
    120: "its firmware failed",
    140: "an unrecovered memory error",
}
# The driver's library starts over now and then; a card that is missing for one look is not gone.
GONE_LOOKS = 2


class Yielding:
    """The owner's own work on a GPU takes it back; sharing resumes when that has been gone for a while."""

    def __init__(self, *, notice_s: float, quiet_s: float) -> None:
        self._notice_s = notice_s
        self._quiet_s = quiet_s
        self._quiet_since_s: dict[int, float] = {}
        self._yielded: set[int] = set()
        self._excused: dict[int, set[int]] = {}  # processes the owner lends the GPU beside

    def look(self, now_s: float, own: Mapping[int, Sequence[GpuUser]], withheld: Withheld) -> list[Word]:
        """`own`: the owner's working processes by GPU, for every GPU that was seen."""
        words = [
            self._busy(index, users, withheld) if users else self._quiet(index, now_s, withheld)
            for index, users in sorted(own.items())
        ]
        return [word for word in words if word is not None]

    def _busy(self, index: int, users: Sequence[GpuUser], withheld: Withheld) -> Word | None:
        follows = self._quiet_since_s.pop(index, None) is not None
        held = withheld_of(withheld, index)
        pids = {user.pid for user in users}
        if held is not None and held.phase is not GpuPhase.PAUSED:
            if held.cause is HoldCause.OWN_WORK:
                self._yielded.add(index)
                if follows:
                    return self._word(index)
            return None
        if held is None and index in self._yielded:
            self._excused[index] = pids  # lent again by the owner's word, with their work in sight
        self._yielded.discard(index)
        if pids <= self._excused.get(index, set()):
            return None
        # Not which program: the word is told the campus, and guests. `gpunion status` has it for the owner.
        return self._word(index)

    def _word(self, index: int, until_s: float | None = None) -> OwnerReclaimed:
        return OwnerReclaimed(
            notice_s=self._notice_s, gpus=(index,), cause=HoldCause.OWN_WORK, until_s=until_s
        )

    def _quiet(self, index: int, now_s: float, withheld: Withheld) -> Word | None:
        self._excused.pop(index, None)
        held = withheld_of(withheld, index)
        if held is None or held.cause is not HoldCause.OWN_WORK:
            self._quiet_since_s.pop(index, None)
            self._yielded.discard(index)
            return None
        if index not in self._quiet_since_s and self._quiet_s > 0:
            self._quiet_since_s[index] = now_s
            return self._word(index, until_s=now_s + self._quiet_s)
        if now_s - self._quiet_since_s.setdefault(index, now_s) < self._quiet_s:
            return None
        self._quiet_since_s.pop(index)
        self._yielded.discard(index)
        return OwnerResumed(gpus=(index,), cause=HoldCause.OWN_WORK)


class Quarantine:
    """A GPU that failed is lent to nobody until the owner says of this very GPU that it is well."""

    def __init__(self) -> None:
        self._missing: dict[int, int] = {}
        self._told: dict[int, str] = {}  # what it was withheld for; the same again is no news

    def look(self, sights: Iterable[GpuSight], withheld: Withheld) -> list[Word]:
        words: list[Word] = []
        for sight in sights:
            trouble = self._trouble(sight)
            held = withheld_of(withheld, sight.index)
            if held is not None and held.cause is HoldCause.SICK:
                self._told.setdefault(sight.index, trouble)
                continue
            if trouble and self._told.get(sight.index) != trouble:
                self._told[sight.index] = trouble
                words.append(
                    OwnerReclaimed(notice_s=0.0, gpus=(sight.index,), cause=HoldCause.SICK, detail=trouble)
                )
        return words

    def _trouble(self, sight: GpuSight) -> str:
        missing = self._missing[sight.index] = self._missing.get(sight.index, 0) + 1 if sight.gone else 0
        if sight.gone:
            return sight.gone if missing >= GONE_LOOKS else ""
        fatal = [xid for xid in sight.xids if xid in FATAL_XIDS]
        if fatal:
            return f"Xid {fatal[-1]}: {FATAL_XIDS[fatal[-1]]}"
        if sight.ecc_uncorrected:
            return counted(sight.ecc_uncorrected, "uncorrectable memory error")
        return ""
