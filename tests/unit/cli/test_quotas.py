"""Quotas and shares as an operator sees them, and why a job waits for its turn."""

from __future__ import annotations

import json

from tests.unit.cli.campus_double import CampusDouble, Terminal, a_job

ADA = {
    "name": "user:ada", "held_gpus": 2, "limit": 4, "high_gpus": 1, "high_limit": 1,
    "used_gpu_h": 12.34, "used_share": 0.7, "lent_gpu_h": 0.0,
}  # fmt: skip
UNUSED = {"name": "lab:*", "priority": None, "gpus": 8, "set_at": "2026-01-01T00:00:00.000Z", "by": "admin"}


def test_who_holds_and_may_hold_how_much_is_listed(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.books = {"quotas": [UNUSED], "accounts": [ADA], "half_life_s": 604_800.0}
    assert gpunion("quotas") == 0
    _, ada, others = gpunion.out.splitlines()[:3]
    assert ada.split() == ["user:ada", "2", "4", "1", "1", "12.3", "GPU-h", "70%", "0.0", "GPU-h"]
    assert others.split()[:3] == ["lab:*", "0", "8"]
    assert "users among users, labs among labs" in gpunion.out
    assert gpunion("quotas", "--json") == 0
    assert json.loads(gpunion.out) == campus.books


def test_a_campus_nobody_used_says_how_a_quota_is_set(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.books = {"quotas": [], "accounts": [], "half_life_s": 604_800.0}
    assert gpunion("quotas") == 0
    assert "gpunion quotas set" in gpunion.out


def test_a_quota_is_set_and_lifted(gpunion: Terminal) -> None:
    assert gpunion("quotas", "set", "user:ada", "4") == 0
    assert "user:ada may hold 4 GPUs" in gpunion.out
    assert gpunion("quotas", "rm", "user:ada") == 0
    assert "it was 3" in gpunion.out


def test_a_class_is_rationed(gpunion: Terminal) -> None:
    assert gpunion("quotas", "set", "user:*", "1", "--class", "high") == 0
    assert "user:* may hold 1 GPU at once for jobs of class high." in gpunion.out
    assert gpunion("quotas", "rm", "user:*", "--class", "high") == 0
    assert "no quota of its own now for jobs of class high" in gpunion.out
    assert gpunion("quotas", "set", "user:*", "1", "--class", "low") == 2


def test_a_ration_nobody_used_is_listed_as_one(gpunion: Terminal, campus: CampusDouble) -> None:
    campus.books = {"quotas": [{**UNUSED, "priority": "high"}], "accounts": [], "half_life_s": 604_800.0}
    assert gpunion("quotas") == 0
    assert gpunion.out.splitlines()[1].split() == ["lab:*", "-", "-", "0", "8", "-", "-", "-"]


def test_a_quota_of_nobody_is_refused_in_words(gpunion: Terminal) -> None:
    for who in ("ada", "user:", "group:x", "user:a*", "lab:a/b"):
        assert gpunion("quotas", "set", who, "4") == 2
        assert "user:NAME or lab:NAME" in gpunion.err


def test_why_tells_whose_turn_it_is(gpunion: Terminal, campus: CampusDouble) -> None:
    job = a_job(phase="pending")
    campus.known = {job["id"]: job}
    campus.waits = [{"subject": job["id"], "code": "turn", "sentence": "waits for its turn"}]
    assert gpunion("why", "train") == 0
    assert "now: waits for its turn" in gpunion.out


def test_a_deadline_travels_with_the_job(gpunion: Terminal, campus: CampusDouble) -> None:
    line = ("submit", "--no-dir", "--expect", "1h", "--deadline", "8h", "--", "true")
    assert gpunion(*line) == 0
    assert campus.submitted[0]["finish_within_s"] == 28_800.0


def test_a_deadline_that_nothing_could_keep_is_refused(gpunion: Terminal, campus: CampusDouble) -> None:
    assert gpunion("submit", "--no-dir", "--expect", "8h", "--deadline", "1h", "--", "true") == 2
    assert "it runs for 8 h, about, and should be done in 1 h" in gpunion.err
    assert campus.submitted == []
