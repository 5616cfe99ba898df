"""Saves of a session while its notebook server cannot help, and two of them at once."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

from gpunion.sdk.session.lab import NoLab
from gpunion.sdk.session.places import Places
from gpunion.sdk.session.saves import Saves
from gpunion.sdk.session.variables.snapshot import About, Group, Lacking, read_about, write_about

LIMIT_S = 30.0


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places.from_environment(
        {
            "GPUNION_SESSION_DIR": str(tmp_path / "scratch" / "sockets"),
            "GPUNION_CONTROL_DIR": str(tmp_path / "control"),
            "GPUNION_CHECKPOINT_DIR": str(tmp_path / "checkpoint"),
            "GPUNION_OUTPUT_DIR": str(tmp_path / "output"),
            "GPUNION_RESUME": "1",
        }
    )
    found.make()
    return found


def a_step(places: Places, number: int) -> Path:
    """As a run before left it, with one kernel's variables."""
    kernel = places.checkpoints / f"step-{number}" / "kernels" / "k-1"
    kernel.mkdir(parents=True)
    (kernel / "groups").write_bytes(b"precious")
    group = Group(file="groups", at=0, names=("data",), size_bytes=8, saved_at=1.0)
    unsaved = (Lacking("lock", "cannot be saved"),)
    write_about(kernel, About(saved_at=1.0, python="3.11.7", groups=(group,), unsaved=unsaved))
    (kernel.parents[1] / "notebooks.json").write_text("[]")
    return kernel.parents[1]


class Lab:
    """A server as saves ask it."""

    def __init__(self, asked: threading.Event | None = None, goes_on: threading.Event | None = None) -> None:
        self._asked, self._goes_on = asked, goes_on

    def ask(self, method: str, path: str, body: dict[str, Any], limit_s: float) -> dict[str, Any]:
        if self._asked is None or self._goes_on is None:
            raise NoLab("it does not answer: timed out")
        self._asked.set()
        assert self._goes_on.wait(LIMIT_S)
        Path(body["into"]).mkdir(parents=True, exist_ok=True)  # as a server that keeps older variables does
        Path(body["into"], "notebooks.json").write_text("[]")
        return {"unsaved": []}


def test_while_the_server_starts_the_newest_save_is_the_answer(places: Places) -> None:
    a_step(places, 4)
    outcome = Saves(places).as_it_is()
    assert outcome is not None
    assert outcome.step == 4
    assert outcome.files is not None
    assert "step-4/kernels/k-1/groups" in outcome.files
    assert outcome.unsaved == (("lock", "cannot be saved"),)
    assert not outcome.with_variables


def test_before_the_first_save_there_is_none_to_answer_with(places: Places) -> None:
    assert Saves(places).as_it_is() is None


def test_variables_of_a_server_that_is_silent_say_themselves_that_they_are_older(
    places: Places,
) -> None:
    a_step(places, 0)
    outcome = Saves(places).save(Lab(), {"turns": {"k-1": 3}}, 1.0)  # type: ignore[arg-type]
    assert outcome.step == 1
    about = read_about(places.checkpoints / "step-1" / "kernels" / "k-1")
    assert about is not None
    told = {one.name: one.why for one in about.unsaved}
    assert told["all variables"].startswith("as they were at 00:00:01 UTC: JupyterLab did not save them")
    assert told["lock"] == "cannot be saved"
    assert [group.names for group in about.groups] == [("data",)]


def test_of_two_saves_at_once_each_has_a_folder_and_the_later_one_counts(places: Places) -> None:
    saves, asked, goes_on, done = Saves(places), threading.Event(), threading.Event(), threading.Event()
    free = threading.Event()
    free.set()

    def first() -> None:
        with contextlib.suppress(OSError):
            saves.save(Lab(asked, goes_on), {"turns": {"k-1": 1}}, LIMIT_S)  # type: ignore[arg-type]
        done.set()

    threading.Thread(target=first, daemon=True).start()
    assert asked.wait(LIMIT_S)
    final = saves.save(Lab(threading.Event(), free), {"turns": {"k-1": 2}}, LIMIT_S)  # type: ignore[arg-type]
    goes_on.set()
    assert done.wait(LIMIT_S)
    assert final.step == 1
    assert saves.newest() == places.checkpoints / "step-1"
    assert saves.save(Lab(), {"turns": {"k-1": 2}}, LIMIT_S) == final  # type: ignore[arg-type]


def test_a_save_that_is_given_up_leaves_nothing_and_does_not_count(places: Places) -> None:
    a_step(places, 0)
    saves, asked, goes_on = Saves(places), threading.Event(), threading.Event()
    failed: list[OSError] = []

    def first() -> None:
        try:
            saves.save(Lab(asked, goes_on), {"turns": {"k-1": 1}}, LIMIT_S)  # type: ignore[arg-type]
        except OSError as trouble:
            failed.append(trouble)

    saving = threading.Thread(target=first, daemon=True)
    saving.start()
    assert asked.wait(LIMIT_S)
    saves.give_up()
    goes_on.set()
    saving.join(LIMIT_S)
    assert failed
    assert [place.name for place in places.checkpoints.iterdir()] == ["step-0"]
