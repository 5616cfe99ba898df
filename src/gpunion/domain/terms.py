"""What an owner grants. Owned by the owner; the coordinator reads them and never writes them."""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.image import Image, matches

DEFAULT_NOTICE_S = 60.0
# SIGTERM comes this long before the owner's deadline (contracts.md), so a program can still tidy up.
TERM_BEFORE_DEADLINE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    notice_s: float = DEFAULT_NOTICE_S
    allow_unsandboxed: bool = False
    allow_labs: tuple[str, ...] = ()  # empty: everybody
    deny_labs: tuple[str, ...] = ()
    max_guests: int = 16
    memory_bytes: int | None = None  # None: all of it
    # How long guests may go on after the lease ended; the coordinator waits as long before it restarts them.
    autonomy_s: float = 0.0
    images: tuple[str, ...] = ()  # patterns of names or digests; empty: whatever the campus lists

    def admits_lab(self, lab: str) -> bool:
        if lab in self.deny_labs:
            return False
        return not self.allow_labs or lab in self.allow_labs

    def admits_image(self, image: Image) -> bool:
        return not self.images or matches(image, self.images)
