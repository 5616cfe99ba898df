"""The clock on the owner's wall: what time it is, and zones by their names."""

from __future__ import annotations

import time
import zoneinfo
from datetime import datetime
from functools import cache

from gpunion.policy.terms.civil import Zone


def machines_own_zone(at_s: float) -> float:
    return float(time.localtime(at_s).tm_gmtoff)


@cache
def zone_named(name: str) -> Zone | None:
    """None for a zone nobody here knows. Kept: reading one opens files."""
    try:
        zone = zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None

    def offset_s(at_s: float) -> float:
        offset = datetime.fromtimestamp(at_s, zone).utcoffset()
        return 0.0 if offset is None else offset.total_seconds()

    return offset_s


def zone_of_terms(timezone: str) -> Zone:
    """The zone an owner's hours are written in; the machine's own where they name none."""
    named = zone_named(timezone) if timezone else None
    return machines_own_zone if named is None else named
