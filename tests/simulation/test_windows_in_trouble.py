"""Jobs that run in windows, and whatever can go wrong: every invariant holds, and every job ends.

What can be shown with a modelled machine is shown here; `docs/windows.md` says where the rest is tried.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.job import WindowWish
from gpunion.domain.resources import GIB, Request
from gpunion.sim.scenario.values import (
    JobPlan,
    MemoryPhase,
    OwnerAct,
    OwnerPlan,
    ScriptedTrouble,
    TroublePlan,
    in_gang,
)
from tests.simulation.small_windows import a_job, a_node, judged, played

pytestmark = pytest.mark.no_cover  # whole campuses; the core has tests enough that count

ALPHA, BETA = NodeId("alpha"), NodeId("beta")


def one_who(name: str = "odd", *, work_s: float = 400.0, **program: Any) -> JobPlan:
    job = a_job(name, work_s=work_s)
    return replace(job, program=replace(job.program, **program))


ODD: dict[str, dict[str, Any]] = {
    "cannot save": {"answers_saves": False, "heeds_windows": False},
    "ignores its window": {"heeds_windows": False},
    "ignores its window and stays after its last save": {"heeds_windows": False, "leaves_after_final": False},
    "answers late": {"heeds_windows": False, "answers_after_s": 40.0},
    "saves ever more": {"save_growth": 0.8, "capture_s": 2.0},
    "counts no steps": {"tells_steps": False},
    "says that its steps take no time": {"tells_step_s": 0.001},
    "says that its steps take for ever": {"tells_step_s": 1e6},
    "has steps that take ten times as long in one run as in another": {"noise": 1.2},
    "does not leave when told to": {"heeds_term": False, "heeds_windows": False, "leaves_after_final": False},
}


@pytest.mark.parametrize("odd", ODD)
def test_a_program_that(odd: str) -> None:
    """It, and one that has to share with it, both end; so they do where the owner's end comes in between."""
    come = (
        OwnerAct(at_s=100.0, do="foretell", notice_s=100.0),
        OwnerAct(at_s=140.0, do="reclaim", notice_s=60.0),
        OwnerAct(at_s=300.0, do="resume"),
        OwnerAct(at_s=301.0, do="foretell"),
    )
    for owners in ((), (OwnerPlan(node_id=ALPHA, acts=come),)):
        outcome, _ = played(one_who(**ODD[odd]), a_job("other", submit_s=20.0), owners=owners)
        assert outcome.totals.succeeded == 2


def test_a_program_that_counts_backwards_fails_alone() -> None:
    """What it saves later is told to be of an earlier step, so that nothing can be gone on from; whoever
    shares its place has all of what is theirs."""
    outcome, seen = judged(one_who(counts_down=True), a_job("other", submit_s=20.0))
    assert {violation.subject for violation in outcome.violations} <= {"odd"}
    assert outcome.totals.succeeded == 1
    assert seen.runs["odd"] < 10  # it is given up, and not tried for ever


def test_a_program_that_lies_about_its_memory_ends_on_a_card_as_large_as_it_asked_for() -> None:
    lies = one_who(
        "lies",
        work_s=3000.0,
        memory=(MemoryPhase(from_share=0.0, gpu_bytes=20 * GIB),),
        tells_memory_bytes=GIB,
    )
    large = Request(gpus=1, vram_bytes=22 * GIB)
    jobs = [
        replace(job, spec=replace(job.spec, request=large)) for job in (lies, a_job("other", work_s=3000.0))
    ]
    small = a_node("beta")
    card = replace(small.facts.capacity.gpus[0], memory_bytes=8 * GIB)
    facts = replace(small.facts, capacity=replace(small.facts.capacity, gpus=(card,)))
    outcome, seen = played(*jobs, nodes=(a_node(), replace(small, facts=facts)), turn_s=(5.0, 20.0))
    assert outcome.totals.succeeded == 2
    assert "beta" in seen.places["lies"]  # it was believed, found out, and not given up


def test_one_that_takes_no_window_that_there_is_waits_until_a_place_is_free() -> None:
    picky = a_job("picky", submit_s=20.0)
    picky = replace(picky, spec=replace(picky.spec, windows=WindowWish(shortest_s=1e6)))
    outcome, seen = played(a_job("first", work_s=300.0), picky)
    assert outcome.totals.succeeded == 2
    assert seen.runs == {"first": 1, "picky": 1}
    assert seen.first_s["picky"] > 300.0


HAPPENINGS = ("reclaim", "kill", "agent_crash", "coordinator_crash", "node_crash", "partition", "full_disk")


@pytest.mark.parametrize("kind", HAPPENINGS)
def test_at_every_moment_of_a_piece(kind: str) -> None:
    """Of the first one: it comes up, works, is to leave, is saved, and the next one comes up."""
    jobs = (a_job("one", work_s=200.0), a_job("other", submit_s=5.0, work_s=150.0))
    for number in range(45):
        at_s, troubles = 1.0 + 3.1 * number, None
        owners: tuple[OwnerPlan, ...] = ()
        if kind in ("reclaim", "kill"):
            acts = (
                OwnerAct(at_s=at_s, do=kind, notice_s=10.0 if kind == "reclaim" else None),
                OwnerAct(at_s=at_s + 50.0, do="resume"),
            )
            owners = (OwnerPlan(node_id=ALPHA, acts=acts),)
        else:
            of = None if kind in ("coordinator_crash", "full_disk") else ALPHA
            trouble = ScriptedTrouble(at_s=at_s, kind=kind, node_id=of, for_s=20.0)
            troubles = TroublePlan(scripted=(trouble,))
        outcome, _ = played(*jobs, owners=owners, troubles=troubles)
        assert outcome.totals.succeeded == 2, f"{kind} at {at_s:.1f} s"


def test_an_end_that_is_moved_while_a_piece_is_saved() -> None:
    """To sooner, to later, and away, at every moment of the last seconds."""
    for number in range(24):
        for notice_s in (2.0, 40.0, 400.0, None):
            acts = (
                OwnerAct(at_s=20.0, do="foretell", notice_s=100.0),
                OwnerAct(at_s=96.0 + number, do="foretell", notice_s=notice_s),
            )
            owner = OwnerPlan(node_id=ALPHA, acts=(*acts, OwnerAct(at_s=700.0, do="foretell")))
            slow = one_who(capture_s=5.0, work_s=150.0)
            outcome, _ = played(slow, owners=(owner,))
            assert outcome.totals.succeeded == 1, f"moved by {notice_s} after {number} s"


def test_a_full_vault_at_the_end_of_a_window_costs_what_was_not_saved_and_nothing_else() -> None:
    owner = OwnerPlan(
        node_id=ALPHA,
        acts=(
            OwnerAct(at_s=20.0, do="foretell", notice_s=100.0),
            OwnerAct(at_s=120.0, do="reclaim", notice_s=0.0),
            OwnerAct(at_s=400.0, do="resume"),
            OwnerAct(at_s=401.0, do="foretell"),
        ),
    )
    full = TroublePlan(scripted=(ScriptedTrouble(at_s=60.0, kind="full_disk", for_s=120.0),))
    outcome, _ = played(one_who(work_s=300.0), owners=(owner,), troubles=full)
    assert outcome.totals.succeeded == 1


@pytest.mark.parametrize("do", ["reclaim", "kill", "leave"])
def test_a_promise_whose_machine_is_gone_is_given_up_and_its_job_begins_elsewhere(do: str) -> None:
    wide = a_job("wide", submit_s=30.0, work_s=100.0)
    wide = replace(wide, spec=replace(wide.spec, request=Request(gpus=2)))
    small = tuple(a_job(f"small-{number}", work_s=900.0) for number in range(4))
    for number in range(20):
        at_s = 31.0 + 5.0 * number
        acts = (
            OwnerAct(at_s=at_s, do=do, notice_s=10.0 if do == "reclaim" else None),
            OwnerAct(at_s=at_s + 2000.0, do="rejoin" if do == "leave" else "resume"),
        )
        nodes = (a_node("alpha", gpus=2), a_node("beta", gpus=2))
        outcome, seen = played(*small, wide, nodes=nodes, owners=(OwnerPlan(node_id=ALPHA, acts=acts),))
        assert outcome.totals.succeeded == 5, f"{do} at {at_s} s"
        assert seen.first_s["wide"] < 900.0


def test_a_gang_whose_promise_is_lost_on_one_machine_gives_up_the_others() -> None:
    gang = in_gang(a_job("gang", submit_s=30.0, work_s=100.0, atomizable=False), 2)
    small = tuple(a_job(f"small-{number}", work_s=900.0) for number in range(4))
    nodes = tuple(a_node(name) for name in ("alpha", "beta", "gamma"))
    for number in range(20):
        at_s = 31.0 + 5.0 * number
        acts = (OwnerAct(at_s=at_s, do="kill"), OwnerAct(at_s=at_s + 3000.0, do="resume"))
        outcome, seen = played(*small, *gang, nodes=nodes, owners=(OwnerPlan(node_id=BETA, acts=acts),))
        assert outcome.totals.succeeded == 6, f"killed at {at_s} s"
        assert seen.first_s["gang"] < 900.0
