"""`[gpu_watch]` of the agent's settings: how closely GPUs are watched, and what the owner's work means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpunion.text import number, positive, truth, words

# Desktops and the driver's own helpers hold a GPU without anybody computing on it.
USUALLY_IGNORED = (
    "Xorg",
    "Xwayland",
    "gnome-shell",
    "gnome-remote-desktop-daemon",
    "kwin_x11",
    "kwin_wayland",
    "plasmashell",
    "nvidia-persistenced",
    "nvidia-smi",
    "nv-hostengine",
    "dcgm-exporter",
)
# Yielding starts within two seconds of the first sign, two looks and a decision.
PERIOD_MAX_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    auto_yield: bool = True
    yield_notice_s: float = 10.0
    quiet_s: float = 60.0  # between two runs of the owner's script nobody should come and go
    period_s: float = 0.5
    ignore: tuple[str, ...] = USUALLY_IGNORED


KEYS = {"auto_yield", "yield_notice_s", "quiet_s", "period_s", "ignore"}


def watch_settings(table: Mapping[str, Any]) -> WatchSettings:
    """ValueError says what is wrong. `ignore` adds to the usual names."""
    usual = WatchSettings()
    period_s = positive(table.get("period_s", usual.period_s), "gpu_watch.period_s")
    if period_s > PERIOD_MAX_S:
        raise ValueError(
            f"gpu_watch.period_s = {period_s:g} is more than {PERIOD_MAX_S:g}: too slow to yield"
        )
    return WatchSettings(
        auto_yield=truth(table.get("auto_yield", usual.auto_yield), "gpu_watch.auto_yield"),
        yield_notice_s=number(table.get("yield_notice_s", usual.yield_notice_s), "gpu_watch.yield_notice_s"),
        quiet_s=number(table.get("quiet_s", usual.quiet_s), "gpu_watch.quiet_s"),
        period_s=period_s,
        ignore=(*usual.ignore, *words(table.get("ignore", ()), "gpu_watch.ignore")),
    )
