"""The API's models: strict where people type, and true to the domain both ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase
from gpunion.domain.jobs.gang import Seat
from gpunion.domain.jobs.job import CheckpointWish, Job, JobPhase, Priority, WindowWish
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.reasons.reason import Verdict, Why, because
from gpunion.domain.resources import Grant, Request
from gpunion.wire.v1 import convert
from gpunion.wire.v1.job_requests import JobIn, WindowsIn
from gpunion.wire.v1.sizes import parse_size
from gpunion.wire.v1.strict import hint

PENDING = convert.JobNow(phase=JobPhase.PENDING)


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("0", 0),
        ("512", 512),
        ("1KiB", 1024),
        ("16 GiB", 16 * 2**30),
        ("1.5gib", 3 * 2**29),
        ("2MB", 2_000_000),
    ],
)
def test_sizes_are_read_as_people_write_them(written: str, size: int) -> None:
    assert parse_size(written) == size


@pytest.mark.parametrize("written", ["", "GiB", "1 XiB", "-1", "1e9", "٣", "1.2.3GiB", "9" * 30])
def test_what_is_no_size_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(written)


def test_a_hint_names_what_was_meant_or_what_there_is() -> None:
    assert hint(["prioritty"], ["priority", "name"]) == "unknown key 'prioritty'; did you mean 'priority'?"
    assert hint(["zzz"], ["priority", "name"]) == "unknown key 'zzz'; known are priority, name"
    assert hint(["zzz"], []) == "unknown key 'zzz'; none is known here"


def test_a_whole_job_becomes_its_spec() -> None:
    job = JobIn.model_validate(
        {
            "name": "train",
            "command": ["python", "train.py"],
            "resources": {
                "gpus": 2,
                "vram": "16GiB",
                "models": ["A100"],
                "exclude": ["T4"],
                "cpus": 4,
                "memory": "8GiB",
            },
            "environment": {"B": "2", "A": "1"},
            "bundle": "0" * 64,
            "priority": "high",
            "lab": "vision",
            "checkpoint": {"max_interval_s": 600, "min_interval_s": 5},
            "expected_s": 3600,
        }
    )
    spec = convert.spec_from(job, owner="mona")
    assert spec.owner == "mona"
    assert spec.request == Request(
        gpus=2,
        vram_bytes=16 * 2**30,
        models=("A100",),
        exclude_models=("T4",),
        cpus=4.0,
        memory_bytes=8 * 2**30,
    )
    assert spec.environment == (("A", "1"), ("B", "2"))
    assert spec.priority is Priority.HIGH
    assert spec.checkpoint == CheckpointWish(max_interval_s=600.0, min_interval_s=5.0)
    assert (spec.lab, spec.bundle, spec.expected_s) == ("vision", "0" * 64, 3600.0)


def test_the_least_job_has_the_domain_s_defaults() -> None:
    spec = convert.spec_from(JobIn.model_validate({"name": "n", "command": ["true"]}), owner="o")
    assert spec.request == Request()
    assert spec.checkpoint == CheckpointWish()


@pytest.mark.parametrize(
    "changes",
    [
        {"expected_s": float("nan")},
        {"expected_s": float("inf")},
        {"resources": {"memory": "99999999TiB"}},
        {"command": ["x"] * 2000},
        {"command": []},
        {"entrypoint": ["x"]},
        {"image": "x:1", "command": [], "entrypoint": []},
        {"image": "x:1", "entrypoint": [""]},
        {"command": ["x" * 30_000] * 20},
    ],
)
def test_what_would_not_fit_an_order_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        JobIn.model_validate({"name": "n", "command": ["true"], **changes})


def a_job(**changes: Any) -> Job:
    spec = convert.spec_from(JobIn.model_validate({"name": "n", "command": ["true"]}), owner="o")
    defaults: dict[str, Any] = {
        "id": JobId("job-1"),
        "spec": spec,
        "phase": JobPhase.PENDING,
        "submitted_s": 0.0,
        "waiting_since_s": 0.0,
    }
    return Job(**{**defaults, **changes})


def test_times_are_rfc_3339_in_utc() -> None:
    shown = convert.job_out(a_job(submitted_s=1_700_000_000.1234), PENDING)
    assert shown.submitted_at == "2023-11-14T22:13:20.123Z"
    assert shown.ended_at is None


def test_live_progress_is_of_the_living_run() -> None:
    run = Run(
        id=RunId("job-1-e1"),
        job_id=JobId("job-1"),
        node_id=NodeId("alpha"),
        epoch=1,
        phase=RunPhase.RUNNING,
        grant=Grant(gpu_indices=(0,), cpus=1.0, memory_bytes=1),
        ordered_s=0.0,
    )
    shown = convert.job_out(
        a_job(epoch=1, phase=JobPhase.RUNNING),
        convert.JobNow(phase=JobPhase.RUNNING, run=run, live=(7, 0.25)),
    )
    assert shown.node_id == "alpha"
    assert shown.live is not None
    assert (shown.live.step, shown.live.progress) == (7, 0.25)
    assert convert.job_out(a_job(), PENDING).live is None


def test_a_verdict_shows_its_reason_or_that_there_is_none() -> None:
    refusal = because("alpha", Why.TOO_FEW_GPUS, has=1, needs=2)
    refused = convert.verdict_out(Verdict(node="alpha", refusal=refusal))
    assert (refused.fits, refused.code) == (False, "too_few_gpus")
    assert refused.sentence == "it has 1 GPU, 2 are needed"
    fits = convert.verdict_out(Verdict(node="beta", score=2.0))
    assert (fits.fits, fits.code, fits.sentence, fits.score) == (True, None, None, 2.0)


def test_a_gang_is_asked_for_by_its_size_and_shown_with_its_members() -> None:
    spec = convert.spec_from(JobIn.model_validate({"name": "x", "command": ["x"], "gang": 2}), owner="sam")
    assert spec.seat == Seat(size=2)
    member = Job(
        id=JobId("job-r1"),
        spec=replace(spec, seat=Seat(size=2, rank=1)),
        phase=JobPhase.FINISHING,
        submitted_s=0.0,
        waiting_since_s=0.0,
    )
    shown = convert.job_out(member, convert.JobNow(phase=member.phase))
    assert shown.phase == "finishing"
    assert shown.gang is not None
    assert (shown.gang.rank, shown.gang.members) == (1, ["job", "job-r1"])
    assert convert.spec_from(JobIn.model_validate({"name": "x", "command": ["x"]}), owner="sam").seat is None


def test_a_job_asks_to_run_in_windows_and_says_how() -> None:
    asked = {"atomizable": True, "windows": {"shortest_s": 300, "vram": "declared", "safe_every": 10}}
    spec = convert.spec_from(JobIn.model_validate({"name": "x", "command": ["x"], **asked}), owner="sam")
    assert spec.atomizable
    assert spec.windows == WindowWish(shortest_s=300.0, learned_vram=False, safe_every=10)
    usual = convert.spec_from(JobIn.model_validate({"name": "x", "command": ["x"]}), owner="sam")
    assert (usual.atomizable, usual.windows) == (False, WindowWish())


def test_what_is_left_out_of_a_change_of_bids_stays() -> None:
    before = WindowWish(shortest_s=300.0, not_on=(NodeId("a"),))
    assert WindowsIn.model_validate({"bid": False}).over(before) == replace(before, bids=False)
    assert WindowsIn.model_validate({"not_on": []}).over(before) == replace(before, not_on=())
    with pytest.raises(ValidationError, match="it could bid for none"):
        WindowsIn.model_validate({"longest_s": 60.0}).over(before)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"atomizable": True, "gang": 2}, "exclude each other"),
        ({"windows": {"shortest_s": 60}}, "atomizable = true"),
        ({"atomizable": True, "windows": {"shortest_s": 0}}, "greater than 0"),
        ({"atomizable": True, "windows": {"safe_every": 0}}, "greater than or equal to 1"),
        ({"atomizable": True, "windows": {"not_on": ["no such name!"]}}, "match"),
        (
            {"atomizable": True, "windows": {"shortest_s": 600, "longest_s": 60}},
            "windows.longest is shorter than windows.shortest",
        ),
    ],
)
def test_windows_are_refused_where_they_make_no_sense(wish: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        JobIn.model_validate({"name": "x", "command": ["x"], **wish})


@pytest.mark.parametrize("wish", [{"tier": "system"}, {"signal": "SIGUSR2"}, {"command": ["save"]}])
def test_members_of_a_gang_have_to_save_themselves(wish: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="save at the same step"):
        JobIn.model_validate({"name": "x", "command": ["x"], "gang": 2, "checkpoint": wish})


@pytest.mark.parametrize(
    ("places", "unknown", "asked_s", "gone"),
    [
        ([], [], 50.0, True),
        (["campus"], [], 50.0, False),
        ([], ["attic"], 50.0, False),  # it may lie there
        ([], [], 20.0, False),  # the places were asked before it was durable
    ],
)
def test_a_checkpoint_that_lies_nowhere_any_more_is_gone(
    places: list[str], unknown: list[str], asked_s: float, gone: bool
) -> None:
    checkpoint = Checkpoint(
        id=CheckpointId("job-e1-c1"),
        job_id=JobId("job"),
        run_id=RunId("job-e1"),
        epoch=1,
        phase=CheckpointPhase.DURABLE,
        requested_s=10.0,
        durable_s=30.0,
    )
    shown = convert.checkpoint_out(
        checkpoint, "alpha", [], places=places, unknown=unknown, asked_s=asked_s, job=a_job(epoch=2)
    )
    assert shown.gone is gone
    asked_for = replace(checkpoint, phase=CheckpointPhase.REQUESTED, durable_s=None)
    for epoch in (1, 2):  # its own run may still save it; once a newer one has begun, nobody will
        shown = convert.checkpoint_out(
            asked_for, "alpha", [], places=[], unknown=[], asked_s=asked_s, job=a_job(epoch=epoch)
        )
        assert shown.gone is (epoch == 2)
    shown = convert.checkpoint_out(
        asked_for,
        "alpha",
        [],
        places=[],
        unknown=[],
        asked_s=asked_s,
        job=a_job(phase=JobPhase.SUCCEEDED),
        under_way=convert.nobody_knows(None),
    )
    assert (shown.gone, shown.under_way) == (True, None)  # its job ended first


@pytest.mark.parametrize(
    ("session", "wish", "longest_s"),
    [
        (None, {}, None),
        ({"kind": "notebook"}, {}, 180.0),
        ({"kind": "shell"}, {"max_interval_s": 900.0}, 900.0),
        ({"kind": "shell"}, {"min_interval_s": 600.0}, 600.0),
    ],
)
def test_a_session_is_saved_every_few_minutes_unless_its_user_says_otherwise(
    session: dict[str, str] | None, wish: dict[str, float], longest_s: float | None
) -> None:
    asked = {"name": "n", "command": ["true"], "session": session, "checkpoint": wish}
    assert convert.spec_from(JobIn.model_validate(asked), owner="o").checkpoint.max_interval_s == longest_s
