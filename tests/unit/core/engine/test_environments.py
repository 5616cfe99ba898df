"""What the campus publishes under a name: pinned when a job is handed in, gone only for who comes later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.environment import (
    EnvironmentAdded,
    EnvironmentRemoved,
    InstalledEnvironment,
    names_a_file,
    package_list,
)
from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.job import JobPhase, JobSpec
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.reasons.reason import Why
from tests.builders import Headquarters, a_spec, orders, whys

FIRST = package_list("pytorch", "torch==2.4.0\n")
LATER = package_list("pytorch", "torch==2.5.0\n")
ADDED = EnvironmentAdded(packages=FIRST, by="admin")
REMOVED = EnvironmentRemoved(name="pytorch", by="admin")


def with_pytorch() -> JobSpec:
    return replace(a_spec(), packages="pytorch")


def a_campus() -> Headquarters:
    campus = Headquarters()
    campus.hears(ADDED)
    return campus


def test_a_name_stands_for_what_was_published_when_the_job_was_handed_in() -> None:
    campus = a_campus()
    campus.submits(spec=with_pytorch())
    campus.hears(EnvironmentAdded(packages=LATER, by="admin"))
    [order] = [order for _, order in orders(campus.joins("alpha")) if isinstance(order, StartRun)]
    assert order.packages == FIRST


def test_a_name_that_is_not_published_is_refused_at_once() -> None:
    campus = Headquarters()
    assert whys(campus.submits(spec=with_pytorch()), "job") == [Why.ENVIRONMENT_NOT_PUBLISHED]
    assert not campus.state.jobs


def test_a_job_waits_with_the_reason_while_its_environment_is_removed() -> None:
    campus = a_campus()
    campus.submits(spec=with_pytorch())
    removed = campus.hears(REMOVED)
    assert Why.ENVIRONMENT_REMOVED in whys(removed, "job")
    campus.joins("alpha")
    assert campus.job().phase is JobPhase.PENDING
    [verdict] = campus.engine.explain(campus.now_s, campus.job().id)
    assert verdict.refusal is not None
    assert verdict.refusal.why is Why.ENVIRONMENT_NOT_PUBLISHED
    assert campus.hears(REMOVED).empty
    campus.hears(ADDED)
    assert campus.job().phase is JobPhase.STARTING


def test_what_is_published_is_known_after_a_restart_and_again_changes_nothing() -> None:
    campus = a_campus()
    assert campus.hears(ADDED).empty
    assert campus.restarts().state.environments["pytorch"].packages == FIRST


def test_machines_say_what_lies_ready_there() -> None:
    campus = a_campus()
    campus.joins("alpha")
    ready = (InstalledEnvironment(digest=FIRST.digest, size_bytes=9),)
    campus.engine.note_installed(NodeId("alpha"), ready)
    assert campus.state.installed == {NodeId("alpha"): ready}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("torch\n", "versions open"),
        ("torch>=2\n", "versions open"),
        ("-f wheels\ntorch==2.4.0\n", "folder of wheels"),
        ("# nothing\n", "no package"),
        ("-e .\n", "not for a job to say"),
        ("torch==2.4.0\n" * 20_000, "is the most"),
    ],
)
def test_a_list_that_would_differ_from_machine_to_machine_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        package_list("pytorch", text)


@pytest.mark.parametrize("name", ["", "PyTorch", "a/b", "requirements.txt", "uv.lock", "x" * 65])
def test_a_name_is_told_apart_from_a_file(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        package_list(name, "torch==2.4.0\n")


def test_a_word_with_a_slash_or_the_usual_ending_is_a_file() -> None:
    assert [word for word in ("pytorch-2.4", "./pytorch", "env/list", "requirements.txt", "uv.lock")
            if names_a_file(word)] == ["./pytorch", "env/list", "requirements.txt", "uv.lock"]  # fmt: skip
