"""Records that are made fast are the library's in everything but time."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle

import pytest

from gpunion.domain.checkpoint import Checkpoint
from gpunion.domain.records import dataclass, maker, open_twin
from gpunion.domain.replacing import changer
from tests.builders import a_guest, a_job, a_node, a_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    kind: str
    twin: int = 3
    notes: list[str] = dataclasses.field(default_factory=list)


def test_what_is_not_given_is_the_default_or_made_for_each():
    first, second = Label(kind="a"), Label(kind="b", twin=4, notes=["said"])
    assert (first.kind, first.twin, first.notes) == ("a", 3, [])
    assert (second.kind, second.twin, second.notes) == ("b", 4, ["said"])
    assert Label(kind="a").notes is not first.notes


@pytest.mark.parametrize("wrong", [{}, {"kind": "a", "colour": "blue"}])
def test_a_field_that_is_missing_or_not_there_is_refused(wrong):
    with pytest.raises(TypeError, match=r"Label.__init__\(\)"):
        Label(**wrong)


@pytest.mark.parametrize("record", [a_job(), a_node(), a_run(), a_guest(), Label(kind="a")])
def test_a_record_is_frozen_and_travels(record):
    kind: type = type(record)
    assert open_twin(kind) is not None
    name = dataclasses.fields(record)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, name, "another")
    assert pickle.loads(pickle.dumps(record)) == record == copy.deepcopy(record)


def test_it_can_still_be_read_what_a_record_is_made_of():
    given = inspect.signature(Checkpoint).parameters
    assert list(given) == [field.name for field in dataclasses.fields(Checkpoint)]
    assert given["final"].default is False


def test_nobody_inherits_from_a_record():
    with pytest.raises(TypeError, match="has no subclasses"):
        type("Heir", (Label,), {})


def test_what_a_maker_makes_is_what_calling_the_class_makes():
    make = maker(Label)
    assert make(kind="a") == Label(kind="a")
    assert make(kind="b", twin=4, notes=["said"]) == Label(kind="b", twin=4, notes=["said"])
    assert type(make(kind="a")) is Label
    assert make(kind="a").notes is not make(kind="a").notes
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(make(kind="a"), "twin", 5)  # noqa: B010


@pytest.mark.parametrize("wrong", [{}, {"kind": "a", "colour": "blue"}])
def test_a_maker_refuses_what_the_class_refuses(wrong):
    with pytest.raises(TypeError, match=r"make\(\)"):
        maker(Label)(**wrong)


def test_a_changer_changes_its_fields_and_keeps_the_others():
    change, label = changer(Label, "twin", "notes"), Label(kind="a")
    assert change(label, twin=7, notes=["new"]) == Label(kind="a", twin=7, notes=["new"])
    assert label == Label(kind="a")
    with pytest.raises(TypeError, match="missing"):
        change(label, twin=7)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(change(label, twin=7, notes=[]), "twin", 5)  # noqa: B010


@pytest.mark.parametrize(("kind", "name"), [(Label, "colour"), (Checkpoint, "")])
def test_no_changer_is_made_for_a_field_that_is_not_there(kind, name):
    with pytest.raises(TypeError, match="no changer"):
        changer(kind, name)


def test_a_kind_that_cannot_be_made_fast_is_its_own_maker():
    assert maker(Unfrozen) is Unfrozen


@dataclasses.dataclass(slots=True)
class Unfrozen:
    name: str = ""
