"""What is learned from each piece: of the program, how it runs; of its user, how far they can be believed."""

from __future__ import annotations

from dataclasses import replace
from math import exp, sqrt

from gpunion.domain.jobs.profile import PEAKS_MOST, TIMES_MOST, Profile, Reliability, Seen
from gpunion.policy.windows.sizing import OUT_OF_MEMORY_MOST, RISK

# A piece that took longer than foretold raises the stretch by this much, less what every piece lowers it by:
# in the long run one in twenty does (a stochastic quantile; Robbins and Monro).
_STRETCH_STEP = 0.1
STRETCH_LEAST, STRETCH_MOST = 1.0, 20.0
# What was seen before counts at most so many times as much as the latest piece: programs change.
_FORMER_PIECES = 3.0
# Reliability: how fast it follows, how hard a wrong promise is judged, and the least it falls to.
ETA, SEVERITY = 0.2, 3.0
RHO_LEAST = 0.2


def learned(profile: Profile, seen: Seen, speed: float) -> Profile:
    """After a piece, or a report of one that goes on. Whatever of it nobody knows changes nothing."""
    profile = _with_steps(profile, seen, speed) if seen.steps > 0 and seen.step_s > 0 else profile
    if seen.begin_s is not None:
        profile = replace(profile, begins_s=(*profile.begins_s, seen.begin_s)[-TIMES_MOST:])
    if seen.save_s is not None:
        profile = replace(profile, saves_s=(*profile.saves_s, seen.save_s)[-TIMES_MOST:])
    if seen.peak_bytes > 0:
        profile = replace(profile, peaks_bytes=(*profile.peaks_bytes, seen.peak_bytes)[-PEAKS_MOST:])
    if seen.foretold_s is not None and seen.took_s is not None:
        profile = _judged(profile, late=seen.took_s > seen.foretold_s)
        profile = replace(
            profile,
            out_of_memory=profile.out_of_memory if profile.out_of_memory >= OUT_OF_MEMORY_MOST else 0,
            pieces=profile.pieces + 1,
            worked_s=profile.worked_s + seen.took_s,
            overhead_s=profile.overhead_s + (seen.begin_s or 0.0) + (seen.save_s or 0.0),
        )
    return profile


def missed(profile: Profile, seen: Seen, speed: float) -> Profile:
    """Its last save was not captured before the window ended."""
    profile = learned(profile, replace(seen, took_s=None), speed)
    profile = _judged(profile, late=True)
    return replace(profile, pieces=profile.pieces + 1, misses=profile.misses + 1)


def short_of_memory(profile: Profile, granted_bytes: int) -> Profile:
    """It was out of memory with less than it had asked for: next time it gets more."""
    return replace(
        profile,
        floor_bytes=max(profile.floor_bytes, granted_bytes + 1),
        peaks_bytes=(*profile.peaks_bytes, granted_bytes + 1)[-PEAKS_MOST:],
        out_of_memory=profile.out_of_memory + 1,
        pieces=profile.pieces + 1,
    )


def _judged(profile: Profile, *, late: bool) -> Profile:
    stretch = profile.stretch + _STRETCH_STEP * (float(late) - RISK)
    return replace(profile, stretch=min(STRETCH_MOST, max(STRETCH_LEAST, stretch)))


def _with_steps(profile: Profile, seen: Seen, speed: float) -> Profile:
    """One mean and deviation of what was known and what is new, each as heavy as its steps."""
    before, mean_s = min(profile.steps, _FORMER_PIECES * seen.steps), seen.step_s * speed
    steps = before + seen.steps
    step_s = (before * profile.step_s + seen.steps * mean_s) / steps
    squares = before * (profile.step_sd_s**2 + (profile.step_s - step_s) ** 2)
    squares += seen.steps * ((seen.step_sd_s * speed) ** 2 + (mean_s - step_s) ** 2)
    return replace(
        profile,
        steps=steps,
        step_s=step_s,
        step_sd_s=sqrt(squares / steps),
        worst_step_s=max(profile.worst_step_s, seen.worst_step_s * speed),
    )


def piece_error(*, promised: float, durable: float, foretold_s: float, took_s: float) -> float:
    """How far a piece was from what was said of it, in [0, 1]: work that is not durable, in whatever it is
    counted, or time beyond."""
    short = 1 - max(0.0, durable) / promised if promised > 0 else 0.0
    beyond = took_s / foretold_s - 1 if foretold_s > 0 else 0.0
    return min(1.0, max(0.0, short, beyond))


def believed(reliability: Reliability, error: float, now_s: float) -> Reliability:
    """After a piece with this error. Forgiving on purpose: a program whose size changed has not lied."""
    rho = (1 - ETA) * reliability.rho + ETA * exp(-SEVERITY * error)
    return _with(reliability, rho, now_s)


def doubted(reliability: Reliability, now_s: float) -> Reliability:
    """It needed more memory than was said."""
    return _with(reliability, reliability.rho / 2, now_s)


def _with(reliability: Reliability, rho: float, now_s: float) -> Reliability:
    rho = min(1.0, max(RHO_LEAST, rho))
    return replace(reliability, rho=round(rho, 6), pieces=reliability.pieces + 1, as_of_s=now_s)
