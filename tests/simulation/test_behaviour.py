"""Behaviour stays as it was recorded, unless a change means to change it; and a change that does is seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.policy.homecoming import Never
from gpunion.policy.policies import LIVE
from gpunion.sim.behaviour.digest import Behaviour
from gpunion.sim.behaviour.record import (
    BehaviourRecord,
    Compared,
    Difference,
    UnreadableRecord,
    lines_beside,
    read_record,
    write_record,
)
from gpunion.sim.fuzz import run_seed
from gpunion.sim.world import Parts

pytestmark = pytest.mark.no_cover

RECORD = Path(__file__).with_name("behaviour.txt")
ANEW = "gpunion sim fuzz --record tests/simulation/behaviour.txt"


def test_random_campuses_behave_as_recorded() -> None:
    """A change that means to alter what happens records it anew with `ANEW`, and says in its message why."""
    record = read_record(RECORD)
    assert len(record.seeds) == 300
    kept = sorted(map(int, record.with_lines))
    assert len(kept) == 12
    for seed in kept:
        behaviour = run_seed(seed, behaviour_lines_of=kept).behaviour
        assert behaviour is not None
        difference = record.difference(str(seed), behaviour)
        assert difference is None, f"{difference.text()}\nif it was meant: {ANEW}"


def test_a_policy_that_decides_otherwise_is_seen_with_the_first_commit_that_differs() -> None:
    record = read_record(RECORD)
    parts = Parts(policies=replace(LIVE, homecoming=Never()))
    found = []
    for seed in range(8):
        behaviour = run_seed(seed, parts, range(12)).behaviour
        assert behaviour is not None
        found.append(record.difference(str(seed), behaviour))
    seen = [difference for difference in found if difference is not None]
    assert seen
    assert all(difference.digests == ("core", "world") for difference in seen)
    assert all(difference.number > 1 and difference.recorded != difference.now for difference in seen)


def a_behaviour(*core: str, world: tuple[str, ...] = ("w",)) -> Behaviour:
    return Behaviour(world=str(len(world)), core=str(hash(core)), world_lines=world, core_lines=core)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    runs = {"0": a_behaviour("a", "b"), "1": Behaviour(world="1", core="2")}
    write_record(tmp_path / "record.txt", runs)
    record = read_record(tmp_path / "record.txt")
    assert record == BehaviourRecord(runs=runs)
    assert record.seeds == (0, 1)
    assert sorted(record.with_lines) == ["0"]


def test_without_its_lines_a_record_still_finds_a_difference(tmp_path: Path) -> None:
    path = tmp_path / "record.txt"
    write_record(path, {"0": a_behaviour("a", "b")})
    lines_beside(path).unlink()
    found = read_record(path).difference("0", a_behaviour("a", "c"))
    assert found == Difference(run="0", digests=("core",))
    assert found.text() == "run 0: core not as recorded; its lines were not kept"


def test_the_first_line_that_differs_is_shown_even_where_one_run_ends_before_the_other() -> None:
    record = BehaviourRecord(runs={"0": a_behaviour("node-1 x", "node-1 y")})
    shorter = record.difference("0", a_behaviour("node-1 x"))
    assert shorter is not None
    assert (shorter.number, shorter.recorded, shorter.now) == (2, "node-1 y", "(nothing more)")


def test_of_a_long_line_the_place_that_differs_is_shown() -> None:
    same, end = "s" * 500, "e" * 500
    record = BehaviourRecord(runs={"0": a_behaviour(f"node-1 9.5 {same}A{end}")})
    found = record.difference("0", a_behaviour(f"node-1 9.5 {same}B{end}"))
    assert found is not None
    assert len(found.now) < 500
    assert found.now.startswith("node-1 9.5 ...s")
    assert "sBe" in found.now
    assert found.now.endswith("...")


def test_what_happened_is_shown_where_only_the_world_differs() -> None:
    record = BehaviourRecord(runs={"0": a_behaviour("a", world=("w",))})
    found = record.difference("0", a_behaviour("a", world=("w", "x")))
    assert found is not None
    assert (found.digests, found.part, found.number) == (("world",), "world", 2)


def test_of_many_differences_one_with_lines_is_shown_and_all_runs_are_named() -> None:
    differing = (
        Difference(run="20", digests=("core",)),
        Difference(run="3", digests=("core",), part="core", number=7, recorded="a", now="b"),
    )
    text = Compared(runs=9, differing=differing).text()
    assert text.startswith(
        "behaviour: 2 of 9 runs differ: 20, 3\nrun 3: core not as recorded; first in line 7"
    )
    assert Compared(runs=9).text() == "behaviour: all 9 runs as recorded"


def test_a_file_that_is_no_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "record.txt").write_text("one two three four\n")
    with pytest.raises(UnreadableRecord, match="no record of behaviour"):
        read_record(tmp_path / "record.txt")
