"""One machine of a lab, as the coordinator knows it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from gpunion.domain.ids import NodeId
from gpunion.domain.image import Image
from gpunion.domain.nodes.signs import Signs
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.nodes.withheld import WithheldGpu, earliest_deadline_s
from gpunion.domain.passes import Keeping
from gpunion.domain.resources import GIB, Capacity, Gpu
from gpunion.domain.system_tier import RestoreTried, SystemAbility

# The location that every campus has; the vault calls it the same.
CAMPUS = "campus"


# Where guests live in containers, and may bring the image of their own.
IMAGE_RUNTIMES = ("docker", "podman")


class NodePhase(StrEnum):
    SHARING = "sharing"
    PAUSED = "paused"  # guests may stay, nobody new comes
    RECLAIMING = "reclaiming"  # notice is running
    RECLAIMED = "reclaimed"  # the owner has it
    SILENT = "silent"  # nothing heard for a lease
    LEFT = "left"


DISK_SHORT_BYTES = GIB  # with less left no guest comes: what it saves has to lie there for a moment


# A pace says little of what is far larger or smaller than what it was seen with.
PACE_LEAST, PACE_MOST = 0.1, 20.0


class DiskRoom(StrEnum):
    """Of the disk that guests of a machine write to."""

    FINE = "fine"
    SHORT = "short"  # who is there may go on; nobody new comes
    FULL = "full"  # what they write fails


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What an agent says of its machine when it says hello."""

    lab: str
    capacity: Capacity
    terms: Terms = field(default_factory=Terms)
    runtime: str = "sandbox"
    sandboxed: bool = True
    building: str = ""
    parks: bool = False  # GPU memory can be moved to host memory there; the terms say whether it may
    image_quota_bytes: int | None = None  # what the owner gives to images of ours; None: no limit
    system: SystemAbility = field(default_factory=SystemAbility)
    places: tuple[str, ...] = ()  # named ones for checkpoints that it reaches, beside the campus's own
    data_address: str = ""  # host:port where other machines may fetch blocks from it; "": nowhere
    keeping: Keeping | None = None  # where it keeps checkpoints of others, if its owner lends disk for that
    places_away: tuple[str, ...] = ()  # and those that it has reached, and that do not answer now
    vault_trouble: str = ""  # why the campus's own vault is not reached from there; empty: it is
    disk: DiskRoom = DiskRoom.FINE
    disk_fails: bool = (
        False  # it is said to be full then, for want of a word that coordinators of before know
    )

    @property
    def takes_images(self) -> bool:
        return self.runtime in IMAGE_RUNTIMES

    def reaches(self, places: tuple[str, ...]) -> bool:
        """Whether a job whose checkpoints lie there can be saved: in the first, or while that one is away in
        another. Who never reaches the first could not copy to it."""
        wanted = places or (CAMPUS,)
        reached = {*self.places} if self.vault_trouble else {CAMPUS, *self.places}
        return wanted[0] in reached or (wanted[0] in self.places_away and not reached.isdisjoint(wanted))

    def may_run_in(self, image: Image) -> bool:
        return self.takes_images and self.terms.admits_image(image)

    @property
    def lent_gpus(self) -> tuple[Gpu, ...]:
        """As large as the terms lend them."""
        most_bytes = self.terms.vram_bytes
        if most_bytes is None:
            return self.capacity.gpus
        return tuple(
            replace(gpu, memory_bytes=min(gpu.memory_bytes, most_bytes)) for gpu in self.capacity.gpus
        )

    @property
    def lent_cpus(self) -> float:
        return self.capacity.cpus if self.terms.cpus is None else min(self.capacity.cpus, self.terms.cpus)

    @property
    def lent_uplink_bps(self) -> float:
        uplink_bps, most_bps = self.capacity.uplink_bps, self.terms.network_bps
        return uplink_bps if most_bps is None else min(uplink_bps, most_bps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long something took on a machine, for so many bytes; smoothed."""

    took_s: float
    size_bytes: int

    def expected_s(self, size_bytes: int) -> float:
        """0 bytes, here or there: nobody knows, so as long as it took."""
        if not size_bytes or not self.size_bytes:
            return self.took_s
        ratio = size_bytes / self.size_bytes
        return self.took_s * min(max(ratio, PACE_LEAST), PACE_MOST)

    def with_seen(self, took_s: float, size_bytes: int) -> Pace:
        return Pace(
            took_s=(self.took_s + took_s) / 2,
            size_bytes=(self.size_bytes + size_bytes) // 2 if self.size_bytes else size_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    id: NodeId
    facts: NodeFacts
    phase: NodePhase
    incarnation: str
    joined_s: float
    phase_since_s: float
    deadline_s: float | None = None
    before_silence: NodePhase | None = None
    departures: int = 0
    lent_gpu_s: float = 0.0
    withheld: tuple[WithheldGpu, ...] = ()  # single GPUs that are not lent, whoever has the rest
    restores: tuple[RestoreTried, ...] = ()  # dumps of other kinds of machines that were tried here
    when_safe: bool = False  # its owner waits for what is saved; the deadline is only how long that may take
    wanted_why: str = ""  # what of its owner's terms ends the lending, where it is not their word
    known_end_s: float | None = None  # by its owner's terms it is lent until then
    not_lent_because: str = ""  # and why it is not, in their words
    signs: Signs | None = None  # of its owner, as its agent shows them; None: it tells nothing
    signs_since_s: float = 0.0
    signs_before: Signs | None = None  # what was shown long enough before that to be of use
    removed: bool = False  # it has left, and nobody wants to see it any more
    isolated_because: str = ""  # nobody is placed there, and it gets no leases, until the operator accepts it
    parks: Pace | None = None  # as seen there; None: never
    unparks: Pace | None = None
    dumps: Pace | None = None
    unheard: bool = False  # since the coordinator began again: it may be gone, and nobody noticed

    def wanted_by_s(self, gpu_indices: tuple[int, ...]) -> float | None:
        """When who holds these GPUs has to be gone: with the whole machine, or from one of them."""
        of_gpus_s = earliest_deadline_s(self.withheld, gpu_indices)
        both = [at_s for at_s in (self.deadline_s, of_gpus_s) if at_s is not None]
        return min(both, default=None)
