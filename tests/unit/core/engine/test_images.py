"""The campus's list and the owner's terms: both have to admit the image a job asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.image import (
    Archive,
    Image,
    ImageAdded,
    ImageRemoved,
    Parcel,
    matches,
    parse_image,
    pinned,
)
from gpunion.domain.jobs.job import JobPhase, JobSpec
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.effects import FetchAhead, SendOrder
from gpunion.domain.protocol.events import GuestStartFailed, OwnerPaused
from gpunion.domain.protocol.frames import Preparing
from gpunion.domain.protocol.orders import FetchImage, StartRun, StopRun
from gpunion.domain.protocol.reports import NoticeGiven
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB
from gpunion.engine.coordinator import audit
from tests.builders import (
    Headquarters,
    LoneAgent,
    a_spec,
    a_start,
    deeds,
    facts,
    orders,
    reports,
    whys,
)

OLD = Image(name="torch:2.4", digest="a" * 64)
NEW = Image(name="torch:2.4", digest="b" * 64)
ARCHIVE = Archive(digest="c" * 64, size_bytes=2 * GIB)
PARCEL = Parcel(image=OLD, archive=ARCHIVE)


def in_containers(*, terms: Terms | None = None, image_quota_bytes: int | None = None) -> NodeFacts:
    return replace(facts(terms=terms), runtime="docker", image_quota_bytes=image_quota_bytes)


def in_image(name: str) -> JobSpec:
    return replace(a_spec(), image=name)


def a_campus_with(*images: Image) -> Headquarters:
    campus = Headquarters()
    for image in images:
        campus.hears(ImageAdded(image=image, archive=ARCHIVE, by="admin"))
        campus.later(1.0)
    return campus


def test_a_name_without_a_digest_means_what_was_listed_last() -> None:
    campus = a_campus_with(OLD, NEW)
    campus.joins("alpha", in_containers())
    decision = campus.submits(spec=in_image("torch:2.4"))
    assert campus.job().image == Parcel(image=NEW, archive=ARCHIVE)
    assert Why.IMAGE_PINNED in whys(decision, "job")
    [(_, order)] = orders(decision)
    assert isinstance(order, StartRun)
    assert order.image == Parcel(image=NEW, archive=ARCHIVE)


def test_a_pinned_name_means_itself_also_when_a_newer_one_is_listed() -> None:
    campus = a_campus_with(OLD, NEW)
    campus.submits(spec=in_image(OLD.ref))
    assert campus.job().image == PARCEL


@pytest.mark.parametrize("asked", ["numpy", f"torch:2.4@sha256:{'d' * 64}", "torch"])
def test_a_job_in_an_image_the_campus_does_not_list_is_not_accepted(asked: str) -> None:
    campus = a_campus_with(OLD)
    assert whys(campus.submits(spec=in_image(asked))) == [Why.IMAGE_NOT_LISTED]
    assert not campus.state.jobs


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (facts(), Why.NO_IMAGES_HERE),
        (in_containers(terms=Terms(images=("jax*",))), Why.IMAGE_NOT_ADMITTED),
        (in_containers(image_quota_bytes=GIB), Why.IMAGE_TOO_LARGE),
    ],
)
def test_a_node_that_cannot_have_the_image_says_why(node: NodeFacts, why: Why) -> None:
    campus = a_campus_with(OLD)
    campus.joins("alpha", node)
    campus.joins("beta", in_containers(terms=Terms(images=("torch:*",)), image_quota_bytes=2 * GIB))
    campus.submits(spec=in_image("torch:2.4"))
    verdicts = {v.node: v.refusal for v in campus.engine.explain(campus.now_s, campus.job().id)}
    refusal = verdicts["alpha"]
    assert refusal is not None
    assert refusal.why is why
    assert campus.run().node_id == "beta"


def test_a_job_that_no_owner_admits_is_impossible() -> None:
    campus = a_campus_with(OLD)
    campus.joins("alpha", in_containers(terms=Terms(images=("jax*",))))
    assert Why.IMPOSSIBLE in whys(campus.submits(spec=in_image("torch:2.4")), "job")


def test_an_image_taken_off_the_list_starts_nobody_until_it_is_back() -> None:
    campus = a_campus_with(OLD)
    campus.submits(spec=in_image("torch:2.4"))
    removed = campus.hears(ImageRemoved(image=OLD, by="admin"))
    assert whys(removed, OLD.ref) == [Why.IMAGE_REMOVED]
    campus.joins("alpha", in_containers())
    assert campus.job().phase is JobPhase.PENDING
    [verdict] = campus.engine.explain(campus.now_s, campus.job().id)
    assert verdict.refusal is not None
    assert verdict.refusal.why is Why.IMAGE_NOT_LISTED
    assert campus.hears(ImageRemoved(image=OLD, by="admin")).empty
    campus.hears(ImageAdded(image=OLD, archive=None, by="admin"))
    assert campus.job().phase is JobPhase.STARTING


def test_adding_the_same_again_changes_nothing_and_keeps_its_archive() -> None:
    campus = a_campus_with(OLD)
    assert campus.hears(ImageAdded(image=OLD, archive=None, by="admin")).empty
    assert campus.restarts().state.images[OLD.ref].archive == ARCHIVE


def test_where_a_job_would_go_its_image_is_fetched_ahead() -> None:
    campus = a_campus_with(OLD)
    campus.joins("alpha", in_containers())
    campus.submits(spec=in_image("torch:2.4"))
    campus.joins("beta", in_containers())
    hint = FetchImage(run_id=RunId("job-e1"), job_id=campus.job().id, epoch=1, parcel=PARCEL)
    assert (NodeId("beta"), hint) in orders(campus.later(1.0).started())
    noticed = campus.later(10.0).reported("alpha", NoticeGiven(deadline_s=campus.now_s + 300.0))
    assert (NodeId("beta"), hint) in orders(noticed)


def test_the_agent_refuses_what_its_owner_does_not_admit_and_says_so() -> None:
    agent = LoneAgent(of=in_containers(terms=Terms(images=("jax*",))))
    [ended] = reports(agent.ordered(a_start(image=PARCEL)))
    assert getattr(ended, "why", None) is Why.IMAGE_NOT_ADMITTED
    assert OLD.ref in getattr(ended, "detail", "")


def test_an_agent_without_containers_refuses_an_image() -> None:
    [ended] = reports(LoneAgent().ordered(a_start(image=PARCEL)))
    assert getattr(ended, "why", None) is Why.NO_IMAGES_HERE


def test_a_hint_is_followed_only_while_the_machine_is_lent() -> None:
    agent = LoneAgent(of=in_containers())
    hint = FetchImage(run_id=RunId("job-e1"), job_id=a_start().job_id, epoch=1, parcel=PARCEL)
    assert deeds(agent.ordered(hint)) == [FetchAhead(parcel=PARCEL)]
    agent.hears(OwnerPaused())
    assert deeds(agent.ordered(hint)) == []


def test_the_audit_finds_a_start_in_an_image_that_the_terms_do_not_admit() -> None:
    campus = a_campus_with(OLD)
    campus.joins("alpha", in_containers(terms=Terms(images=("torch:*",))))
    campus.submits(spec=in_image("torch:2.4"))
    forged = Parcel(image=replace(OLD, name="jax"))
    order = SendOrder(node_id=NodeId("alpha"), order=a_start(image=forged))
    [violation] = audit.check(campus.state, Decision(effects=(order,)))
    assert (violation.invariant, violation.subject) == (2, "alpha")


def test_a_full_disk_is_a_refusal_and_not_the_jobs_failure() -> None:
    agent = LoneAgent(of=in_containers())
    agent.ordered(a_start(image=PARCEL))
    detail = "3 GiB are needed"
    failed = GuestStartFailed(run_id=RunId("job-e1"), detail=detail, why=Why.NO_ROOM_FOR_IMAGE)
    [ended] = reports(agent.hears(failed))
    assert (getattr(ended, "reason", None), getattr(ended, "detail", "")) == (EndReason.REFUSED, detail)


def test_a_refused_job_is_told_in_words_and_goes_elsewhere() -> None:
    campus = a_campus_with(OLD)
    campus.joins("alpha", in_containers())
    campus.submits(spec=in_image("torch:2.4"))
    campus.joins("beta", in_containers())
    for _ in range(4):  # more often than a start may fail
        campus.ended(
            f"job-e{campus.job().epoch}",
            EndReason.REFUSED,
            why=Why.NO_ROOM_FOR_IMAGE,
            detail="3 GiB are needed",
        )
        campus.later(31.0)
        campus.fires("replan") if campus.job().phase.waiting else None
    assert not campus.job().phase.over
    assert any("refused it: 3 GiB are needed" in reason.sentence() for _, reason in campus.told)


def test_what_a_start_waits_for_is_remembered_while_it_is_to_start() -> None:
    campus = a_campus_with(OLD)
    campus.joins("alpha", in_containers())
    campus.submits(spec=in_image("torch:2.4"))
    told = Preparing(run_id=RunId("job-e1"), what="fetching its image", done=0.4)
    campus.engine.note_preparing(NodeId("alpha"), (told,))
    campus.engine.note_preparing(NodeId("beta"), ())
    assert campus.state.preparing == {"job-e1": told}
    campus.started()
    campus.engine.note_preparing(NodeId("alpha"), (told,))
    assert campus.state.preparing == {}


def test_a_start_that_says_what_it_waits_for_gets_more_time() -> None:
    campus = a_campus_with(OLD)
    campus.joins("alpha", in_containers())
    campus.submits(spec=in_image("torch:2.4"))
    told = Preparing(run_id=RunId("job-e1"), what="fetching its image", done=0.4)
    campus.engine.note_preparing(NodeId("alpha"), (told,))
    assert orders(campus.fires("start:job-e1")) == []
    campus.engine.note_preparing(NodeId("alpha"), ())
    [(node, order)] = orders(campus.fires("start:job-e1"))
    assert (node, type(order)) == ("alpha", StopRun)


@pytest.mark.parametrize(
    "text",
    ["", "Torch", "torch@", "torch@sha256:12", "torch@md5:aa", "a//b", "torch 2", "x" * 201, "-x", "torch:"],
)
def test_what_names_no_image_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"names no image|is no digest"):
        parse_image(text)


def test_names_may_have_a_registry_and_a_port() -> None:
    assert parse_image("campus.example:5000/ml/torch:2.4-cu12") == (
        "campus.example:5000/ml/torch:2.4-cu12",
        None,
    )
    with pytest.raises(ValueError, match="not pinned"):
        pinned("torch")


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("torch:2.4", True),
        ("torch*", True),
        (f"sha256:{'a' * 64}", True),
        ("*@sha256:aaaa*", True),
        ("jax*", False),
    ],
)
def test_an_owners_pattern_is_for_names_and_for_digests(pattern: str, fits: bool) -> None:
    assert matches(OLD, (pattern,)) is fits
