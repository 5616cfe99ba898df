"""How owners of this campus leave: how many announce it, and how long before.

Learned from departures as they happen. A departure that is announced early enough costs no work, so it does
not count when intervals are chosen: only those for which the last save would not be in time do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

# Before anything was seen: as many announced as not, and those as the terms promise. Worth four departures.
PRIOR_DEPARTURES = 4.0
PRIOR_ANNOUNCED_SHARE = 0.5
# The newest notices are remembered; older ones say little about how owners behave now.
NOTICES_KEPT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeBook:
    unannounced: int = 0
    notices_s: tuple[float, ...] = ()
    _by_length_s: tuple[float, ...] = field(init=False, compare=False, repr=False)  # asked at every save

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_length_s", tuple(sorted(self.notices_s)))

    def announced(self, notice_s: float) -> NoticeBook:
        kept = (*self.notices_s, notice_s)[-NOTICES_KEPT:]
        # What falls out of the memory takes its share of the unannounced with it.
        dropped = len(self.notices_s) + 1 - len(kept)
        fewer = round(self.unannounced * dropped / (len(self.notices_s) + 1))
        return replace(self, notices_s=kept, unannounced=self.unannounced - fewer)

    def came_unannounced(self) -> NoticeBook:
        return replace(self, unannounced=self.unannounced + 1)

    @property
    def announced_share(self) -> float:
        seen = len(self.notices_s) + self.unannounced
        prior = PRIOR_DEPARTURES * PRIOR_ANNOUNCED_SHARE
        return (len(self.notices_s) + prior) / (seen + PRIOR_DEPARTURES)

    def chance_in_time(self, needs_s: float, promised_s: float) -> float:
        """That the next departure is announced and leaves `needs_s`. `promised_s`: what the terms say."""
        long_enough = len(self.notices_s) - bisect_left(self._by_length_s, needs_s)
        prior = PRIOR_DEPARTURES * PRIOR_ANNOUNCED_SHARE * (promised_s >= needs_s)
        return (long_enough + prior) / (len(self.notices_s) + self.unannounced + PRIOR_DEPARTURES)

    def to_plain(self) -> dict[str, object]:
        return {"unannounced": self.unannounced, "notices_s": list(self.notices_s)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> NoticeBook:
        unannounced, notices = plain.get("unannounced"), plain.get("notices_s")
        if not isinstance(unannounced, int) or not isinstance(notices, list):
            raise ValueError(f"expected unannounced and notices_s, found {sorted(plain)}")
        return cls(unannounced=unannounced, notices_s=tuple(float(notice) for notice in notices))
