"""`gpunion vault ls|verify|repair`, as people and programs see them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpunion.cli.exits import ERROR, NOT_FOUND, OK, UNAVAILABLE
from tests.contract.vault.conftest import Place, a_key, directory, name_of, sealed
from tests.unit.cli.campus_double import CampusDouble, Terminal


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = directory(tmp_path)
    sealed(place.open(), {"w": b"first"}, checkpoint_id="c1", step=1)
    sealed(place.open(), {"w": b"second"}, checkpoint_id="c2", step=2)
    return place


@pytest.fixture
def gpunion(tmp_path: Path) -> Terminal:
    return Terminal(CampusDouble(), tmp_path)


def test_ls_shows_every_checkpoint(place: Place, gpunion: Terminal) -> None:
    assert gpunion("vault", "ls", "vault") == OK
    assert [line.split()[:2] for line in gpunion.out.splitlines()[1:]] == [["job-1", "c1"], ["job-1", "c2"]]
    assert gpunion("vault", "ls", "vault", "--json") == OK
    jobs = json.loads(gpunion.out)["jobs"]
    assert [checkpoint["id"] for checkpoint in jobs[0]["checkpoints"]] == ["c1", "c2"]


def test_verify_says_that_all_is_well(place: Place, gpunion: Terminal) -> None:
    assert gpunion("vault", "verify", "vault", "--job", "job-1") == OK
    assert "All can be restored." in gpunion.out


def test_verify_without_the_keys_claims_no_more_than_it_knows(place: Place, gpunion: Terminal) -> None:
    sealed(place.open().keyed(a_key("job-2")), {"w": b"secret"}, job_id="job-2", checkpoint_id="d1")
    assert gpunion("vault", "verify", "vault") == OK
    assert "1 of the checkpoints are encrypted" in gpunion.out
    assert "Nothing is missing or damaged." in gpunion.out
    assert "All can be restored." not in gpunion.out
    assert gpunion("vault", "verify", "vault", "--json") == OK
    answer = json.loads(gpunion.out)
    assert (answer["checkpoints"], answer["encrypted"]) == (3, 1)
    assert gpunion("vault", "ls", "vault") == OK
    assert "d1" in gpunion.out


def test_verify_fails_and_names_what_is_lost_and_repair_takes_it_out_of_view(
    place: Place, gpunion: Terminal
) -> None:
    place.damage_block(name_of(b"second"))
    assert gpunion("vault", "verify", "vault") == ERROR
    assert "UNREADABLE job-1 c2" in gpunion.out
    assert gpunion("vault", "verify", "vault", "--json") == ERROR
    assert [lost["checkpoint_id"] for lost in json.loads(gpunion.out)["unreadable"]] == ["c2"]
    assert gpunion("vault", "repair", "vault") == OK
    assert "set aside job-1 c2" in gpunion.out
    assert gpunion("vault", "repair", "vault") == OK
    assert "nothing was changed" in gpunion.out


def test_what_is_not_there_is_said(place: Place, gpunion: Terminal) -> None:
    assert gpunion("vault", "ls", "elsewhere") == UNAVAILABLE
    assert "is no vault, or nothing was saved there yet" in gpunion.err
    assert gpunion("vault", "verify", "vault", "--job", "nobody") == NOT_FOUND


def test_places_are_listed_with_who_reaches_them(gpunion: Terminal) -> None:
    assert gpunion("places") == OK
    lines = [line.split() for line in gpunion.out.splitlines()]
    assert lines[1][:3] == ["campus", "(usual)", "campus"]
    assert lines[2][-2:] == ["alpha,", "beta"]


def test_a_job_says_where_its_checkpoints_are_kept(gpunion: Terminal) -> None:
    assert gpunion("submit", "--place", "bucket", "--no-dir", "--", "true") == OK
    assert gpunion.campus.submitted[-1]["place"] == "bucket"
    (gpunion.here / "gpunion.toml").write_text('command = "true"\ndir = false\nplace = "attic"\n')
    assert gpunion("submit") == OK
    assert gpunion.campus.submitted[-1]["place"] == "attic"
