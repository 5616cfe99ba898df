"""Who is compared: each a bundle of answers, and whether its jobs may run in windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gpunion.lab.evaluation.contenders import Mechanisms
from gpunion.lab.reference.scenario import Campus
from gpunion.lab.windows.baselines import FirstCome, LeastLeft, ShortestFirst
from gpunion.policy.policies import Policies
from gpunion.policy.windows.policy import WindowPolicy
from gpunion.policy.windows.scoring import DEADLINES, EFFICIENT
from gpunion.policy.windows.simpler_clearings import CLEARINGS

Change = Callable[[Policies], Policies]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """`lengths_off`: what is said of how long a job takes is off by up to this factor, either way."""

    name: str
    label: str
    change: Change
    lengths_off: float = 1.0
    windows: bool = False

    def policies(self, campus: Campus) -> Policies:
        """Like the report's `ours`, and as a coordinator does ahead of an end that is foretold."""
        return self.change(replace(Mechanisms().policies(campus), name=self.name, evacuates=True))


def _as_it_is(policies: Policies) -> Policies:
    return policies


def _with(**changed: object) -> Change:
    return lambda policies: replace(policies, **changed)  # type: ignore[arg-type]


def _ours(name: str, label: str, policy: WindowPolicy, lengths_off: float = 1.0) -> Contender:
    change = _with(windows=policy)
    return Contender(name=name, label=label, change=change, lengths_off=lengths_off, windows=True)


ALL_OF_IT = WindowPolicy()
OFF = Contender(name="off", label="today: windows off", change=_as_it_is)
OURS = _ours("ours", "ours", ALL_OF_IT)

RIGID = (
    Contender(name="first-come", label="first come, nobody passes", change=_with(ordering=FirstCome())),
    OFF,
    Contender(name="easy", label="EASY backfilling, true lengths", change=_with(reserves_first=True)),
    Contender(
        name="easy-off-4",
        label="EASY, lengths off by up to four",
        change=_with(reserves_first=True),
        lengths_off=4.0,
    ),
    Contender(name="shortest", label="shortest first, true lengths", change=_with(ordering=ShortestFirst())),
    Contender(
        name="shortest-off-4",
        label="shortest first, lengths off by up to four",
        change=_with(ordering=ShortestFirst()),
        lengths_off=4.0,
    ),
    Contender(name="best-fit", label="best fit", change=_with(scoring=LeastLeft())),
)
IN_WINDOWS = (
    OURS,
    _ours("ours-off-4", "ours, lengths off by up to four", ALL_OF_IT, 4.0),
    _ours("turns-only", "turns only", replace(ALL_OF_IT, gaps=False, promises=False, learned_memory=False)),
    _ours(
        "gaps-only",
        "gaps only",
        replace(ALL_OF_IT, turns=False, promises=False, learned_memory=False),
    ),
    _ours("no-gaps", "ours without gaps", replace(ALL_OF_IT, gaps=False)),
    _ours("no-turns", "ours without turns", replace(ALL_OF_IT, turns=False)),
    _ours("no-promises", "ours without promises", replace(ALL_OF_IT, promises=False)),
    _ours("no-memory", "ours with declared memory", replace(ALL_OF_IT, learned_memory=False)),
    _ours("no-calibration", "ours, everybody believed", replace(ALL_OF_IT, calibration=False)),
    _ours("in-turn", "windows given in turn", replace(ALL_OF_IT, clearing=CLEARINGS["in-turn"])),
    _ours("stack", "windows cleared in two phases", replace(ALL_OF_IT, clearing=CLEARINGS["stack"])),
    _ours("efficient", "ours, weighed for efficiency", replace(ALL_OF_IT, weights=EFFICIENT)),
    _ours("deadlines", "ours, weighed for deadlines", replace(ALL_OF_IT, weights=DEADLINES)),
)
ALL: Mapping[str, Contender] = {one.name: one for one in (*RIGID, *IN_WINDOWS)}
