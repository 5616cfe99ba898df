"""What anybody could have now: machines that take guests, less what is held and kept."""

from __future__ import annotations

import pytest

from gpunion.domain.nodes.node import DiskRoom
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.reports import NodePaused
from gpunion.policy.placement.openness import is_open
from tests.builders.headquarters import Headquarters
from tests.builders.values import a_node, a_view, facts


def test_what_a_guest_holds_is_not_free() -> None:
    here = Headquarters()
    here.joins("alpha", facts(gpus=2))
    here.submits("job")
    [view] = here.engine.open_nodes(here.now_s)
    assert [gpu.index for gpu in view.free_gpus] == [1]
    assert view.free_cpus == 15.0


def test_a_machine_whose_owner_takes_nobody_is_not_free() -> None:
    here = Headquarters()
    here.joins("alpha")
    here.joins("beta")
    here.reported("alpha", NodePaused())
    assert [view.node.id for view in here.engine.open_nodes(here.now_s)] == ["beta"]


@pytest.mark.parametrize(
    "closed",
    [
        a_node(isolated_because="it lied"),
        a_node(unheard=True),
        a_node(known_end_s=150.0),
        a_node(of=facts(disk=DiskRoom.FULL)),
        a_node(of=facts(sandboxed=False)),
        a_node(of=facts(terms=Terms(max_guests=0))),
    ],
)
def test_a_machine_that_would_refuse_everybody_is_not_free(closed: object) -> None:
    assert not is_open(a_view(closed), 100.0)  # type: ignore[arg-type]


def test_a_known_end_that_is_far_away_leaves_it_free() -> None:
    assert is_open(a_view(a_node(known_end_s=4000.0)), 100.0)


def test_whom_its_owner_names_is_said_and_not_judged() -> None:
    assert is_open(a_view(a_node(of=facts(terms=Terms(allow_labs=("vision",))))), 100.0)
