"""What an owner grants. Owned by the owner; the coordinator reads them and never writes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpunion.domain.image import Image, matches

DEFAULT_NOTICE_S = 60.0
# SIGTERM comes this long before the owner's deadline (contracts.md), so a program can still tidy up.
TERM_BEFORE_DEADLINE_S = 5.0
# An owner who lets guests finish their saves first still wants the machine within this.
DEFAULT_WHEN_SAFE_S = 900.0
# People come back from a coffee; guests should not come and go in between.
DEFAULT_QUIET_S = 600.0
# How busy a GPU is while its owner works, and when the machine comes and goes, says when they work: that is
# told and kept in sums, or as it is.
FIGURES_SUMS, FIGURES_FULL = "sums", "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the campus has to know of them to send nobody in vain."""

    notice_s: float = DEFAULT_NOTICE_S
    allow_unsandboxed: bool = False
    allow_labs: tuple[str, ...] = ()  # nobody named here or in `allow_people`: everybody
    deny_labs: tuple[str, ...] = ()
    prefer_labs: tuple[str, ...] = ()
    allow_people: tuple[str, ...] = ()
    deny_people: tuple[str, ...] = ()
    prefer_people: tuple[str, ...] = ()
    max_guests: int = 16
    memory_bytes: int | None = None  # of all guests together; None, here and below: all of it
    cpus: float | None = None  # of all guests together
    vram_bytes: int | None = None  # of each GPU
    network_bps: float | None = None  # for what guests save and leave
    # How long guests may go on after the lease ended; the coordinator waits as long before it restarts them.
    autonomy_s: float = 0.0
    # While the owner uses a GPU, its guest may stand still in memory: whether, and in how much of it (None:
    # what is free, less a reserve).
    park: bool = False
    park_bytes: int | None = None
    images: tuple[str, ...] = ()  # patterns of names or digests; empty: whatever the campus lists
    egress: tuple[str, ...] = ()  # where guests with a network may go (`domain.egress`); empty: nowhere
    sessions: bool = True  # somebody may work in a guest: type commands, open its notebooks and ports
    figures: str = FIGURES_SUMS  # what may be told and kept of its GPUs and of its comings and goings

    def admits_lab(self, lab: str) -> bool:
        """Whether the lab is nobody's reason to be refused."""
        if lab in self.deny_labs:
            return False
        return not self.allow_labs or lab in self.allow_labs

    def admits(self, lab: str, person: str) -> bool:
        """Who is named in person counts before their lab does; a no counts before a yes."""
        if person in self.deny_people:
            return False
        if person in self.allow_people:
            return True
        return self.admits_lab(lab) and (not self.allow_people or lab in self.allow_labs)

    def admits_image(self, image: Image) -> bool:
        return not self.images or matches(image, self.images)

    def prefers(self, lab: str, person: str) -> bool:
        return lab in self.prefer_labs or person in self.prefer_people


@dataclass(frozen=True, slots=True, kw_only=True)
class HouseRules:
    """What only the machine itself has to know of them; it tells nobody."""

    hours: str = ""  # when it is lent, week by week; empty: always
    calendar: str = ""  # a file of its owner's own appointments, when it is not lent
    timezone: str = ""  # of both; empty: the machine's own
    temperature_c: float | None = None
    disk_bytes: int | None = None  # of each guest
    when_safe_s: float = DEFAULT_WHEN_SAFE_S
    yield_login: bool = False  # somebody logged in on the machine: it is theirs
    yield_keyboard: bool = False  # somebody types on a terminal of it
    yield_gpus: tuple[int, ...] = ()  # what is theirs then; empty: all of it
    yield_notice_s: float | None = None  # None: as `Terms.notice_s`
    yield_quiet_s: float = DEFAULT_QUIET_S
    signs: bool = True  # the campus may know that somebody is there, never who


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnersTerms:
    """All of them, as their owner writes them."""

    terms: Terms = field(default_factory=Terms)
    house: HouseRules = field(default_factory=HouseRules)
