"""Which nodes may take a job, which of them does, and with which GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import NodeId
from gpunion.domain.image import Archive, Image, Parcel
from gpunion.domain.jobs.job import Avoidance, Job
from gpunion.domain.nodes.node import DiskRoom, NodePhase
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB, Request
from gpunion.policy.placement.filters import FOR_GOOD, has_room, refusal, suitable
from gpunion.policy.placement.pick import FastThenTight, NotPlaced, Placed, choose_gpus, place
from tests.builders import a_grant, a_job, a_node, a_spec, a_view, facts, some_gpus


def asking(**request: object) -> Job:
    return a_job(spec=a_spec(request=Request(**request)))  # type: ignore[arg-type]


def with_gpus(*versions: str, count: int = 1) -> NodeView:
    compute_capability, cuda = versions
    return a_view(a_node(of=facts(gpus=some_gpus(count, compute_capability=compute_capability, cuda=cuda))))


REFUSALS: dict[Why, tuple[Job, NodeView]] = {
    Why.NODE_LEFT: (a_job(), a_view(a_node(phase=NodePhase.LEFT))),
    Why.TOO_FEW_GPUS: (a_job(gpus=2), a_view()),
    Why.WRONG_MODEL: (asking(models=("other",)), a_view()),
    Why.OTHER_CAPABILITY: (asking(compute_capability=">=9.0"), with_gpus("8.6", "12.4")),
    Why.CAPABILITY_UNKNOWN: (asking(compute_capability=">=8.0"), a_view()),
    Why.OTHER_CUDA: (asking(cuda=">=12.10"), with_gpus("8.6", "12.4")),
    Why.CUDA_UNKNOWN: (asking(cuda=">=12.4"), a_view()),
    Why.TOO_LITTLE_VRAM: (asking(vram_bytes=25 * GIB), a_view()),
    Why.TOO_FEW_CPUS: (asking(cpus=17), a_view()),
    Why.TOO_LITTLE_MEMORY: (asking(memory_bytes=65 * GIB), a_view()),
    Why.LAB_NOT_ADMITTED: (a_job(), a_view(a_node(of=facts(terms=Terms(allow_labs=("others",)))))),
    Why.UNSANDBOXED: (a_job(), a_view(a_node(of=facts(sandboxed=False)))),
    Why.NO_NETWORK_HERE: (asking(network=True), a_view()),
    Why.DISK_SHORT_THERE: (a_job(), a_view(a_node(of=facts(disk=DiskRoom.SHORT)))),
    Why.DISK_FAILS_THERE: (
        a_job(),
        a_view(a_node(of=replace(facts(disk=DiskRoom.FULL), disk_fails=True))),
    ),
    Why.NODE_PAUSED: (a_job(), a_view(a_node(phase=NodePhase.PAUSED))),
    Why.NODE_RECLAIMED: (a_job(), a_view(a_node(phase=NodePhase.RECLAIMING))),
    Why.NODE_SILENT: (a_job(), a_view(a_node(phase=NodePhase.SILENT))),
    Why.REFUSED_LATELY: (a_job(avoid=(Avoidance(node_id=NodeId("alpha"), until_s=11.0),)), a_view()),
    Why.PLACE_NOT_REACHED: (a_job(spec=a_spec(places=("bucket",))), a_view()),
    Why.GUESTS_FULL: (a_job(), a_view(a_node(of=facts(terms=Terms(max_guests=2))), guests=2)),
    Why.TOO_FEW_FREE_GPUS: (a_job(), a_view(free_gpus=())),
    Why.TOO_FEW_FREE_CPUS: (a_job(), a_view(free_cpus=0.5)),
    Why.TOO_LITTLE_FREE_MEMORY: (a_job(), a_view(free_memory_bytes=GIB // 2)),
}


@pytest.mark.parametrize("why", REFUSALS, ids=lambda why: why.value)
def test_each_refusal_has_its_reason_in_words(why: Why) -> None:
    job, view = REFUSALS[why]
    reason = refusal(job, view, 10.0)
    assert reason is not None
    assert (reason.why, reason.subject) == (why, "alpha")
    assert "{" not in reason.sentence()


def test_too_little_memory_is_told_with_what_the_largest_has() -> None:
    reason = refusal(asking(vram_bytes=25 * GIB), a_view(), 0.0)
    assert reason is not None
    told = "0 of its GPUs have 25 GiB of memory (the largest has 24 GiB), 1 is needed"
    assert reason.sentence() == told


def test_a_gpu_that_fits_the_program_is_given_and_what_it_has_is_told_where_it_does_not() -> None:
    asked = asking(compute_capability=">=8.0,<9.0", cuda=">=12.4")
    assert refusal(asked, with_gpus("8.6", "12.4"), 0.0) is None
    reason = refusal(asked, with_gpus("9.0", "12.4"), 0.0)
    assert reason is not None
    told = "its GPUs (card) have compute capability 9.0, and the job asks for >=8.0,<9.0"
    assert reason.sentence() == told
    reason = refusal(asked, with_gpus("8.6", "11.8"), 0.0)
    assert reason is not None
    assert reason.sentence() == "its driver supports CUDA up to 11.8, and the job asks for >=12.4"


def test_a_machine_that_does_not_know_its_own_is_told_with_what_its_owner_can_do() -> None:
    reason = refusal(asking(cuda=">=12.4"), a_view(), 0.0)
    assert reason is not None
    assert 'into agent.toml, under [[gpu]]: cuda = "12.4"' in reason.sentence()
    seen = tuple(replace(gpu, declared=False) for gpu in some_gpus())
    reason = refusal(asking(cuda=">=12.4"), a_view(a_node(of=facts(gpus=seen))), 0.0)
    assert reason is not None
    assert reason.sentence().endswith("Its owner can update its NVIDIA driver, which does not say")


def in_an_image(requires: str) -> Job:
    image = Image(name="torch:2.4", digest="0" * 64)
    return a_job(image=Parcel(image=image, archive=Archive(digest="1" * 64, size_bytes=1, requires=requires)))


NVIDIAS_OWN = "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=tesla,driver>=535,driver<536"


@pytest.mark.parametrize(
    ("cuda", "driver", "why"),
    [
        ("12.4", "550.54.15", Why.NO_IMAGES_HERE),  # that is what else this machine lacks
        ("12.2", "535.104.05", Why.NO_IMAGES_HERE),
        ("12.2", "525.60.13", Why.IMAGE_NEEDS_CUDA),
        ("", "", Why.CUDA_UNKNOWN),
    ],
)
def test_an_image_runs_where_one_of_what_its_makers_require_holds(cuda: str, driver: str, why: Why) -> None:
    gpus = tuple(replace(gpu, cuda=cuda, driver=driver) for gpu in some_gpus())
    reason = refusal(in_an_image(NVIDIAS_OWN), a_view(a_node(of=facts(gpus=gpus))), 0.0)
    assert reason is not None
    assert reason.why is why
    if why is Why.IMAGE_NEEDS_CUDA:
        assert reason.sentence() == (
            "its driver supports CUDA up to 12.2, and the image torch:2.4 asks for cuda>=12.4"
        )


@pytest.mark.parametrize("requires", ["", "brand=tesla", "nonsense", "cuda>=12..4", "cuda>=x arch>=9.9"])
def test_what_nobody_understands_of_an_image_keeps_it_nowhere_away(requires: str) -> None:
    reason = refusal(in_an_image(requires), with_gpus("8.6", "12.4"), 0.0)
    assert reason is not None
    assert reason.why is Why.NO_IMAGES_HERE


def test_of_several_gpus_those_that_fit_are_chosen() -> None:
    old, new = some_gpus(compute_capability="6.1"), some_gpus(first=1, compute_capability="8.6")
    assert suitable((*old, *new), Request(compute_capability=">=8.0")) == new
    several = asking(gpus=2, compute_capability=">=8.0")
    reason = refusal(several, a_view(a_node(of=facts(gpus=(*old, *new)))), 0.0)
    assert reason is not None
    assert "compute capability 8.6, 6.1" in reason.sentence()


def test_a_node_that_has_everything_refuses_nobody() -> None:
    assert refusal(a_job(), a_view(), 0.0) is None


def test_a_reclaimed_node_is_its_owner_s_too() -> None:
    reason = refusal(a_job(), a_view(a_node(phase=NodePhase.RECLAIMED)), 0.0)
    assert reason is not None
    assert reason.why is Why.NODE_RECLAIMED


@pytest.mark.parametrize(
    ("places", "reached", "away", "does"),
    [
        (("bucket", "attic"), ("bucket",), (), True),
        (("bucket", "attic"), ("attic",), (), False),
        (("bucket", "attic"), ("attic",), ("bucket",), True),
        (("bucket", "campus"), (), ("bucket",), True),
        (("bucket", "attic"), (), ("bucket",), False),
        (("bucket",), (), ("bucket",), False),
        (("campus", "bucket"), (), (), True),
    ],
)
def test_a_node_reaches_the_first_place_or_another_while_that_one_is_away(
    places: tuple[str, ...], reached: tuple[str, ...], away: tuple[str, ...], does: bool
) -> None:
    node = a_node(of=facts(places=reached, places_away=away))
    assert (refusal(a_job(spec=a_spec(places=places)), a_view(node), 0.0) is None) == does


def test_an_owner_may_allow_what_their_machine_cannot_shut_in() -> None:
    open_house = a_node(of=facts(sandboxed=False, terms=Terms(allow_unsandboxed=True)))
    assert refusal(a_job(), a_view(open_house), 0.0) is None


def test_a_machine_that_does_not_reach_the_campus_s_vault_gets_no_job_that_lies_only_there() -> None:
    lost = a_view(a_node(of=replace(facts(), vault_trouble="not mounted", places=("bucket",))))
    reason = refusal(a_job(), lost, 10.0)
    assert reason is not None
    assert (
        reason.sentence()
        == "it does not reach the campus's vault, where the job's checkpoints lie, or finds it full"
    )
    assert refusal(a_job(spec=a_spec(places=("bucket", "campus"))), lost, 10.0) is None
    both = a_job(spec=a_spec(places=("campus", "bucket")))
    assert refusal(both, lost, 10.0) is not None
    away = replace(lost.node.facts, places_away=("campus",))
    assert refusal(both, a_view(a_node(of=away)), 10.0) is None


def test_a_refusal_wears_off() -> None:
    job, view = REFUSALS[Why.REFUSED_LATELY]
    assert refusal(job, view, 11.0) is None
    reason = refusal(job, view, 1.0)
    assert reason is not None
    assert reason.sentence() == "it refused or failed this job a moment ago, and is asked again in 10 s"


def test_what_never_fits_is_said_before_what_does_not_fit_now() -> None:
    reason = refusal(a_job(gpus=2), a_view(a_node(phase=NodePhase.PAUSED)), 0.0)
    assert reason is not None
    assert reason.why is Why.TOO_FEW_GPUS


def test_what_no_waiting_mends_is_what_the_node_has_and_its_standing_terms() -> None:
    assert set(REFUSALS) - FOR_GOOD == {
        Why.NODE_PAUSED,
        Why.NODE_RECLAIMED,
        Why.NODE_SILENT,
        Why.REFUSED_LATELY,
        Why.PLACE_NOT_REACHED,
        Why.DISK_SHORT_THERE,
        Why.DISK_FAILS_THERE,
        Why.GUESTS_FULL,
        Why.TOO_FEW_FREE_GPUS,
        Why.TOO_FEW_FREE_CPUS,
        Why.TOO_LITTLE_FREE_MEMORY,
    }


def test_an_excluded_model_does_not_do() -> None:
    gpus = some_gpus(1, model="old") + some_gpus(1, model="new", first=1)
    assert suitable(gpus, Request(exclude_models=("old",))) == gpus[1:]


@pytest.mark.parametrize(
    ("named", "model"),
    [
        ("A100", "A100-SXM4-80GB"),
        ("a100", "A100"),
        ("RTX 4090", "RTX4090"),
        ("rtx-4090", "GeForce RTX 4090"),
        ("4070", "RTX4070Ti"),
    ],
)
def test_a_model_is_known_by_any_way_to_write_it(named: str, model: str) -> None:
    gpus = some_gpus(1, model=model)
    assert suitable(gpus, Request(models=(named,))) == gpus
    assert suitable(gpus, Request(exclude_models=(named,))) == ()


@pytest.mark.parametrize(
    ("named", "model"), [("L4", "L40"), ("L40", "L40S"), ("A10", "A100"), ("H100", "GH100"), ("-", "A1")]
)
def test_another_model_is_not_taken_for_it(named: str, model: str) -> None:
    gpus = some_gpus(1, model=model)
    assert suitable(gpus, Request(models=(named,))) == ()
    assert suitable(gpus, Request(exclude_models=(named,))) == gpus


def test_the_fastest_node_is_taken() -> None:
    views = [a_view(a_node("slow")), a_view(a_node("fast", of=facts(speed=2.0)))]
    found = place(a_job(), views, 0.0, FastThenTight())
    assert isinstance(found, Placed)
    assert (found.node_id, found.grant) == ("fast", a_grant(0))
    assert found.because == "best of the free ones (card, speed 2, 0 GPUs left over)"
    assert [(verdict.node, verdict.score) for verdict in found.verdicts] == [("slow", 1.0), ("fast", 2.0)]


def test_among_equally_fast_nodes_the_one_with_the_least_left_over_is_taken() -> None:
    views = [a_view(a_node("roomy", of=facts(gpus=4))), a_view(a_node("tight"))]
    found = place(a_job(), views, 0.0, FastThenTight())
    assert isinstance(found, Placed)
    assert found.node_id == "tight"


def test_a_place_that_was_kept_is_taken_even_if_another_is_better() -> None:
    views = [a_view(a_node("kept")), a_view(a_node("fast", of=facts(speed=9.0)))]
    found = place(a_job(), views, 0.0, FastThenTight(), NodeId("kept"))
    assert isinstance(found, Placed)
    assert (found.node_id, found.because) == ("kept", "a place was kept for it there")


def test_a_place_that_was_kept_and_does_not_do_any_more_is_passed_over() -> None:
    views = [a_view(a_node("kept", phase=NodePhase.PAUSED)), a_view(a_node("other"))]
    found = place(a_job(), views, 0.0, FastThenTight(), NodeId("kept"))
    assert isinstance(found, Placed)
    assert found.node_id == "other"


def test_where_nobody_would_do_everybody_says_why() -> None:
    found = place(a_job(), [a_view(a_node(phase=NodePhase.PAUSED))], 0.0, FastThenTight())
    assert isinstance(found, NotPlaced)
    assert [verdict.fits for verdict in found.verdicts] == [False]


def test_ties_are_broken_the_same_way_whatever_the_order_of_the_nodes() -> None:
    views = [a_view(a_node(f"node{index}")) for index in range(5)]
    there = place(a_job(), views, 0.0, FastThenTight())
    back = place(a_job(), reversed(views), 0.0, FastThenTight())
    assert isinstance(there, Placed)
    assert isinstance(back, Placed)
    assert there.node_id == back.node_id


def test_the_fastest_gpus_are_taken_but_none_bigger_than_needed() -> None:
    gpus = (
        some_gpus(1, speed=1.0)
        + some_gpus(1, speed=2.0, memory_gib=80, first=1)
        + some_gpus(2, speed=2.0, memory_gib=24, first=2)
    )
    view = a_view(a_node(of=facts(gpus=gpus)))
    assert [gpu.index for gpu in choose_gpus(a_job(gpus=1), view)] == [2]
    assert [gpu.index for gpu in choose_gpus(a_job(gpus=3), view)] == [1, 2, 3]


@pytest.mark.parametrize("phase", list(NodePhase))
@pytest.mark.parametrize("needs", [{"gpus": 1}, {"gpus": 3}, {"cpus": 1000.0}, {"memory_bytes": 2**60}])
def test_where_there_is_no_room_there_is_a_refusal(phase, needs):
    """The planner asks `has_room` first: it may leave out nobody whom the filters admit."""
    job, view = asking(**needs), a_view(a_node(phase=phase))
    assert has_room(job.spec.request, view) or refusal(job, view, 0.0) is not None


def test_a_job_that_needs_a_network_goes_where_the_owner_lists_places_and_is_granted_it() -> None:
    job = asking(network=True)
    view = a_view(a_node(of=facts(terms=Terms(egress=("data.example:443",)))))
    assert refusal(job, view, 0.0) is None
    placed = place(job, [view], 0.0, FastThenTight())
    assert isinstance(placed, Placed)
    assert placed.grant.network
