"""Turns: while somebody waits, a tenant that runs in windows has its place for a while, and then it is
cleared again. Who has it may win it again, and often does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.migration import MigrationPhase
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.jobs.window import Promise, Subjob, Window, WindowEnd
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.protocol.timers import TurnOver
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.capacity import view
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import accounts
from gpunion.engine.coordinator.planning.clearing import quotas
from gpunion.engine.coordinator.planning.clearing.bidders import bidder_of
from gpunion.engine.coordinator.planning.clearing.fitting import Fitting, Offer
from gpunion.engine.coordinator.planning.preemption import without
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.windows import ends, promises
from gpunion.policy.windows.bidding import Bidder
from gpunion.policy.windows.clearing import BIDDERS_MOST, WINDOWS_MOST, clear, urgency
from gpunion.policy.windows.gaps import window_over
from gpunion.policy.windows.policy import WindowPolicy
from gpunion.policy.windows.sizing import GUARD_S, SHORTEST_OVERHEADS
from gpunion.policy.windows.turns import turn_s

# What a GPU-second of windows is worth, about: the score of whoever has it next. Without it who is nearly
# done would lose against anybody who fills a whole turn.
RATE = 0.2
# How long a newcomer counts on a place after the end that its tenant was given.
GOING_S = 60.0
# Of those who wait so many bid, and so many more for each window there is.
BIDDERS_LEAST, BIDDERS_A_WINDOW = 8, 2
# A turn ends at one moment; those that end within this of it (or this share of a turn) are cleared with it.
TOGETHER_S, TOGETHER_SHARE = 30.0, 0.05


def take(draft: Draft, waiting: Sequence[Job]) -> None:
    """`waiting`: who found no place, in the order of their turns."""
    policy = draft.policies.windows
    if policy is None or not policy.turns or not waiting or not draft.state.in_windows:
        return
    able = [job for job in waiting if bids(draft, job)]
    tenants = _tenants(draft)
    if not able or not tenants:
        return
    together_s = min(TOGETHER_S, TOGETHER_SHARE * policy.bounds.least_s)
    over = [run for run in tenants if turn_ends_s(draft, run, policy) <= draft.now_s + together_s]
    over.sort(key=lambda run: (turn_ends_s(draft, run, policy), run.id))
    if over:
        _clear(draft, able, over[:WINDOWS_MOST], policy)
    _wait_for_the_next(draft, policy)


def turn_ends_s(draft: Draft, run: Run, policy: WindowPolicy) -> float:
    """Who bids for short pieces alone has shorter turns, but none below the campus's least: each end of one
    is a clearing."""
    since_s = next(at for at in (run.turn_since_s, run.started_s, run.ordered_s) if at is not None)
    job = draft.job_of(run)
    turn, longest_s = turn_s(ends.sizing_for(job), policy.bounds), job.spec.windows.longest_s
    return since_s + (turn if longest_s is None else max(policy.bounds.least_s, min(turn, longest_s)))


def bids(draft: Draft, job: Job) -> bool:
    return job.spec.atomizable and job.spec.request.gpus > 0 and seeks(draft, job)


def seeks(draft: Draft, job: Job) -> bool:
    if job.id not in draft.state.waiting or job.promised is not None or job.awaits is not None:
        return False
    if job.holds_back:
        return False
    migration = moving.migration_of(draft, job)
    return migration is None or migration.phase is MigrationPhase.SEEKING


def _tenants(draft: Draft) -> list[Run]:
    """Who runs in a window without an end: nobody has asked them to go yet."""
    runs = (draft.state.runs[one] for one in sorted(draft.state.in_windows))
    return [run for run in runs if may_be_cleared(draft, run)]


def may_be_cleared(draft: Draft, run: Run) -> bool:
    if run.phase is not RunPhase.RUNNING or run.over_s is not None or run.parking or run.subjob is None:
        return False
    if run.subjob.end not in (WindowEnd.OPEN, WindowEnd.KNOWN_END) or not run.grant.gpu_indices:
        return False
    node = draft.state.nodes[run.node_id]
    if draft.job_of(run).migration is not None or node.wanted_by_s(run.held_gpus) is not None:
        return False
    return run.wanted_by_s is None


def _clear(draft: Draft, waiting: list[Job], over: list[Run], policy: WindowPolicy) -> None:
    shares = accounts.shares(draft)
    bidders = [
        bidder_of(draft, draft.job_of(run), shares, run=run, window=index) for index, run in enumerate(over)
    ]
    bidders += _first(draft, waiting, over, policy)
    room_s = max((room_to_come_s(one) for one in bidders), default=0.0)
    windows = _windows(draft, over, policy, room_s)
    cleared = clear(
        windows,
        bidders,
        clearing=policy.clearing,
        weights=policy.weights,
        bounds=policy.bounds,
        rate=RATE,
    )
    won = {award.window: draft.state.jobs[award.job_id] for award in cleared.awards}
    books, again = quotas.books(draft), list[Run]()
    for index, run in enumerate(over):
        winner = won.get(index)
        if winner is None or winner.id == run.job_id:
            _stays(draft, run)
        elif books.held_back(winner) is None:
            _makes_way(draft, run, winner)
            books.count(winner)
        else:
            again.append(run)  # its user won another place just now, and may not have both
    if again:
        _clear(draft, [job for job in waiting if bids(draft, job)], again, policy)


def _first(draft: Draft, waiting: list[Job], over: list[Run], policy: WindowPolicy) -> list[Bidder]:
    """Those who are likely to win: bids of all of a long queue would take longer than they are worth."""
    most = min(BIDDERS_MOST, BIDDERS_LEAST + BIDDERS_A_WINDOW * len(over))
    widest = max(len(run.held_gpus) for run in over)
    able = [job for job in waiting if job.spec.request.gpus <= widest]
    offers = [
        Offer(
            window=window_of(draft, run, policy),
            here=_as_if_free(draft, run),
            begins_s=_gone_by_s(_ended(draft, run), draft.now_s),
        )
        for run in over
    ]
    windows = cache(partial(_windows, draft, over, policy))
    fitting = Fitting(draft, offers, policy, lambda one: windows(room_to_come_s(one)), enough=1)
    books, found = quotas.books(draft), list[Bidder]()
    for job in sorted(able, key=lambda one: need(draft, one, policy)):
        fit = fitting.of(job, job)
        if fit is not None and books.held_back(job) is None:
            found.append(fit.bidder)
        if len(found) == most:
            break
    return found


def _windows(draft: Draft, over: Sequence[Run], policy: WindowPolicy, room_s: float) -> list[Window]:
    return [window_of(draft, run, policy, room_s) for run in over]


def need(draft: Draft, job: Job, policy: WindowPolicy) -> tuple[int, float, float]:
    served_gpu_s = 0.0 if job.profile is None else job.profile.worked_s * job.spec.request.gpus
    waited_s = draft.now_s - job.waiting_since_s
    return (-int(job.spec.priority), *urgency(waited_s, served_gpu_s, policy.bounds))


def _as_if_free(draft: Draft, run: Run) -> NodeView:
    return without(view(draft, run.node_id), draft, frozenset((run.id,)))


def room_to_come_s(bidder: Bidder) -> float:
    return SHORTEST_OVERHEADS * bidder.sizing.overhead_s + 2 * GUARD_S


def window_of(draft: Draft, run: Run, policy: WindowPolicy, room_s: float = 0.0) -> Window:
    """A turn counts from when its job has come up, so that one is never too short to come for."""
    node = draft.state.nodes[run.node_id]
    held = set(run.held_gpus)
    gpus = [gpu for gpu in node.facts.capacity.gpus if gpu.index in held]
    turn = turn_s(ends.sizing_for(draft.job_of(run)), policy.bounds)
    return window_over(node, gpus, draft.now_s, turn_s=max(turn, room_s))


def _stays(draft: Draft, run: Run) -> None:
    draft.put(replace(draft.state.runs[run.id], turn_since_s=draft.now_s))


def _makes_way(draft: Draft, run: Run, newcomer: Job) -> None:
    job = draft.job_of(run)
    subjob = _ended(draft, run)
    ends.give(draft, run, subjob)
    draft.because(job.id, Why.WINDOW_ENDS, node=run.node_id, because=ends.BECAUSE[WindowEnd.TURN])
    gpus = run.held_gpus[: newcomer.spec.request.gpus]
    by_s = _gone_by_s(subjob, draft.now_s)
    promises.give(draft, newcomer, Promise(node_id=run.node_id, gpus=gpus, by_s=by_s))


def _ended(draft: Draft, run: Run) -> Subjob:
    return ends.until(draft.job_of(run), run, draft.now_s, WindowEnd.TURN)


def _gone_by_s(subjob: Subjob, now_s: float) -> float:
    return now_s + subjob.save_s + GOING_S


def _wait_for_the_next(draft: Draft, policy: WindowPolicy) -> None:
    tenants = _tenants(draft)
    if tenants:
        next_s = min(turn_ends_s(draft, run, policy) for run in tenants)
        timer = TurnOver()
        planned_s = draft.timer_at(timer) if draft.timer_set(timer) else None
        if planned_s is None or planned_s <= draft.now_s or next_s < planned_s:
            draft.set_timer(timer, max(next_s, draft.now_s))
