"""After every event: what should happen that is not happening yet?

Reconciles instead of following a script, so that a destination reclaimed in mid-move is no special case:
wanted nodes are emptied, waiting jobs placed, jobs that fare better at home sent there.
"""

from __future__ import annotations

from gpunion.domain.protocol.timers import ReplanDue
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import departures as triage
from gpunion.engine.coordinator.planning import gang_moves, placement
from gpunion.engine.coordinator.planning import homecoming as homeward
from gpunion.engine.coordinator.planning import parked_places as parked
from gpunion.engine.coordinator.planning import preemption as preempting
from gpunion.engine.coordinator.planning import same_owner_alarm as neighbours
from gpunion.engine.coordinator.planning.clearing import for_gangs, gaps, quotas, turns, wide
from gpunion.engine.coordinator.windows import ends, promises


def reconcile(draft: Draft) -> None:
    """Nobody need ask where nothing has `changed` that could let a job be placed or moved."""
    neighbours.warn(draft)
    triage.empty_wanted_nodes(draft)
    gang_moves.follow(draft)
    ends.follow(draft)
    if draft.may_place:
        promises.look(draft)
        quotas.give_up(draft)
        left_over, kept = placement.place_waiting(draft)
        gaps.offer(draft, left_over, kept)
        wide.keep_places(draft, left_over)
        for_gangs.keep_places(draft)
        turns.take(draft, left_over)
        preempting.make_room(draft)
        parked.move_on(draft)
    ends.let_stay(draft)
    if draft.freed:
        homeward.send(draft)
    gang_moves.follow(draft)  # of a member that was sent home or made room just now
    _keep_looking(draft)


def look_again_later(draft: Draft) -> None:
    draft.look_again = True


def _keep_looking(draft: Draft) -> None:
    """Refusals wear off and jobs away from home get nearer their end: look again after a while."""
    anybody = draft.state.waiting or parked.anybody(draft) or homeward.anybody_away(draft)
    if not draft.timer_set(ReplanDue()) and anybody:
        draft.set_timer(ReplanDue(), draft.now_s + draft.timing.replan_s)
