"""What is free now, as whoever plans a job sees it."""

from __future__ import annotations

import json

from tests.unit.cli.campus_double import CampusDouble, Json, Terminal


def free_node(node: str = "alpha", gpus: int = 2, **changes: object) -> Json:
    cards = [
        {"index": index, "model": "A100", "memory_bytes": 40 * 2**30, "speed": 1.0} for index in range(gpus)
    ]
    shown: Json = {
        "node": node, "lab": "vision", "gpus": cards, "cpus": 6.0, "memory_bytes": 2**34, "until": None,
        "notice_s": 60.0, "allow_labs": [], "deny_labs": [], "allow_people": [], "deny_people": [],
    }  # fmt: skip
    return {**shown, **changes}


def test_what_is_free_is_listed_with_the_most_gpus_first(gpunion: Terminal, campus: CampusDouble) -> None:
    until = "2026-01-01T17:00:00.000Z"
    campus.free_now = {
        "nodes": [
            free_node("alpha", gpus=0),
            free_node("beta", until=until, allow_labs=["robots"], deny_people=["eve"]),
            free_node("full", gpus=0, cpus=0.0),
        ],
        "waiting": 1,
    }
    assert gpunion("nodes", "--free") == 0
    head, beta, alpha, below = gpunion.out.splitlines()
    assert head.split()[:3] == ["NODE", "LAB", "FREE"]
    assert "2 x A100 40 GiB" in beta
    assert "2026-01-01" in beta or "17:00:00" in beta
    assert beta.endswith("lab robots but eve")
    assert alpha.split()[2] == "none"
    assert alpha.endswith("anybody")
    assert below == "1 job already waits for a place."
    assert gpunion("nodes", "--free", "--json") == 0
    assert json.loads(gpunion.out) == campus.free_now


def test_a_full_campus_says_what_to_do(gpunion: Terminal) -> None:
    assert gpunion("nodes", "--free") == 0
    assert "Nothing is free now" in gpunion.out
    assert "gpunion submit" in gpunion.out


def test_all_and_free_do_not_go_together(gpunion: Terminal) -> None:
    assert gpunion("nodes", "--free", "--all") == 2
