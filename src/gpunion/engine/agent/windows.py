"""A guest's window: it is saved before that ends, and gone when it does.

Three things see to it, each of them enough for whoever comes next: the program ends its piece by itself, this
module asks it to save, and of a hard end its keeper ends it, whether or not there is an agent.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from gpunion.domain.jobs.guest import Guest, GuestPhase
from gpunion.domain.jobs.profile import Seen
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.window import Subjob, WindowEnd
from gpunion.domain.protocol.effects import TellWindow
from gpunion.domain.protocol.orders import SetWindow
from gpunion.domain.protocol.timers import WindowEnds
from gpunion.engine.agent import saves
from gpunion.engine.agent.draft import AgentDraft
from gpunion.policy.bandwidth import periodic_rate_bps
from gpunion.policy.windows.sizing import CANTELLI_Z

# Between two machines' clocks, and from asking a program to its answer.
ASKED_AHEAD_S = 1.0
# Of a soft end nobody is kept waiting for long: a save may take so much longer, or a share of the piece.
SOFT_PATIENCE_S = 60.0
SOFT_PATIENCE_SHARE = 0.1
# A program that stops in time looks this many of its usual stretches ahead at most, and is so much too early.
STEPS_SLACK, EARLY_S = 2.0, 10.0


def set_window(draft: AgentDraft, order: SetWindow) -> None:
    guest = draft.guests.get(order.run_id)
    if guest is None or guest.phase not in (GuestPhase.STARTING, GuestPhase.RUNNING):
        return  # it is on its way out, or gone: its end is told by itself
    guest = draft.put(replace(guest, subjob=order.subjob))
    draft.limit(guest.run_id)
    if guest.phase is GuestPhase.RUNNING:
        begin(draft, guest)


def begin(draft: AgentDraft, guest: Guest) -> None:
    """Its program runs, or its window was changed."""
    subjob = guest.subjob
    if subjob is None:
        return
    draft.do(TellWindow(run_id=guest.run_id, subjob=subjob))
    timer = WindowEnds(run_id=guest.run_id)
    if subjob.ends_s is None:
        draft.cancel_timer(timer)
    else:
        draft.set_timer(timer, max(draft.now_s, subjob.ends_s - subjob.save_s - ASKED_AHEAD_S))


def after_standing_still(draft: AgentDraft, guest: Guest) -> Guest:
    """Before it goes on. An end that passed meanwhile has kept nobody waiting; its window has none until the
    coordinator, which hears of it, gives it another one."""
    subjob = guest.subjob
    if subjob is None or subjob.ends_s is None or subjob.ends_s > draft.now_s:
        return guest
    return replace(guest, subjob=replace(subjob, ends_s=None, hard=False, end=WindowEnd.OPEN))


def nearly_over(draft: AgentDraft, guest: Guest | None) -> None:
    """It is asked for its last save, unless that is under way. One that stands still in memory, or that its
    owner wants gone, goes by their rules."""
    if guest is None or guest.phase is not GuestPhase.RUNNING or guest.parking is not None:
        return
    if guest.subjob is None or guest.subjob.ends_s is None:
        return
    if guest.saving is not None and guest.saving.final:
        return
    by_s = saved_by_s(guest.subjob, draft.now_s)
    saves.ask_by_ourselves(draft, guest, by_s, EndReason.WINDOW, rate_bps=rate_bps(draft))


def is_nearly_over(guest: Guest, now_s: float) -> bool:
    """Whether a program that ends by itself now may have done so for its window: it ends at the last point
    from which it would not come to the next one and be saved. One that ends long before has reasons of
    its own, and how often it does so is counted."""
    subjob = guest.subjob
    if subjob is None or subjob.ends_s is None:
        return False
    known = guest.seen or Seen()
    save_s = max(subjob.save_s, known.save_s or 0.0)
    steps_s = subjob.safe_every * known.step_s + CANTELLI_Z * known.step_sd_s * sqrt(subjob.safe_every)
    return now_s >= subjob.ends_s - save_s - STEPS_SLACK * steps_s - EARLY_S


def rate_bps(draft: AgentDraft) -> float:
    """Nobody waits for it on the wire: as of any save in between."""
    return periodic_rate_bps(draft.facts.lent_uplink_bps, len(draft.living()))


def saved_by_s(subjob: Subjob, now_s: float) -> float:
    ends_s = now_s if subjob.ends_s is None else subjob.ends_s
    if subjob.hard:
        return ends_s
    return max(now_s, ends_s) + max(SOFT_PATIENCE_S, SOFT_PATIENCE_SHARE * subjob.length_s)


def ended_by_it(guest: Guest, leave_by_s: float | None) -> bool:
    """Whether a keeper's limit that was reached was that of its window, and not its owner's."""
    ends_s = guest.hard_end_s
    return ends_s is not None and (leave_by_s is None or ends_s <= leave_by_s)


def seen(guest: Guest, now_s: float) -> Seen | None:
    """What its piece was like, for whoever sizes the next one."""
    if guest.subjob is None:
        return None
    known, saving = guest.seen or Seen(), guest.saving
    captured = guest.final_saved and saving is not None and saving.saved
    save_s = known.save_s
    if captured and saving is not None and saving.stall_s > 0:
        save_s = max(saving.stall_s, saving.capture_s)
    came_up_s = None if guest.began_s is None else max(0.0, guest.began_s - guest.came_s)
    return replace(
        known,
        begin_s=None if came_up_s is None else came_up_s + (known.begin_s or 0.0),
        save_s=save_s if captured else None,
        foretold_s=guest.subjob.length_s or None,
        took_s=max(0.0, now_s - guest.came_s) if captured else None,
    )
