"""`gpunion images`, and a job that names one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpunion.cli.exits import NOT_FOUND, OK, USAGE
from gpunion.wire.image_archive import check_reduced
from tests.saved_images import a_layer, save_image
from tests.unit.cli.campus_double import CampusDouble, Terminal, a_job


def test_an_archive_is_sent_without_its_tags_and_listed_by_its_digest(
    gpunion: Terminal, campus: CampusDouble, tmp_path: Path
) -> None:
    digest = save_image(tmp_path / "torch.tar", a_layer({"a": b"b"}), tags=("torch:latest",))
    assert gpunion("images", "add", "torch:2.4", "--from", "torch.tar") == OK
    assert f"torch:2.4@sha256:{digest} is on the list" in gpunion.out
    [(_, data)] = campus.archives.items()
    (tmp_path / "sent.tar").write_bytes(data)
    assert check_reduced(tmp_path / "sent.tar") == digest
    assert gpunion("images", "ls") == OK
    assert digest[:12] in gpunion.out
    assert gpunion("images", "ls", "--json") == OK
    assert json.loads(gpunion.out)["images"][0]["digest"] == f"sha256:{digest}"
    assert gpunion("images", "rm", "torch:2.4") == OK
    assert gpunion("images", "ls") == OK
    assert "No image is listed" in gpunion.out


def test_an_archive_of_another_image_is_refused_with_both_digests(
    gpunion: Terminal, campus: CampusDouble, tmp_path: Path
) -> None:
    digest = save_image(tmp_path / "torch.tar", a_layer({"a": b"b"}))
    assert gpunion("images", "add", f"torch@sha256:{'0' * 64}", "--from", "torch.tar") != OK
    assert digest in gpunion.err
    assert not campus.archives
    assert gpunion("images", "add", "torch", "--from", "nowhere.tar") == NOT_FOUND


def test_a_name_alone_pins_nothing(gpunion: Terminal, campus: CampusDouble) -> None:
    assert gpunion("images", "add", "torch") == USAGE
    assert "not pinned" in gpunion.err
    assert gpunion("images", "add", "Torch@") == USAGE
    assert gpunion("images", "add", f"torch@sha256:{'a' * 64}") == OK
    assert [image["archive"] for image in campus.listed] == [None]


def test_a_job_names_its_image_in_a_flag_or_in_its_file(
    gpunion: Terminal, campus: CampusDouble, tmp_path: Path
) -> None:
    assert gpunion("submit", "--no-dir", "--image", "torch:2.4", "--", "python", "train.py") == OK
    (tmp_path / "gpunion.toml").write_text('command = "true"\ndir = false\nimage = "jax:1"\n')
    assert gpunion("submit") == OK
    assert [job["image"] for job in campus.submitted] == ["torch:2.4", "jax:1"]


def test_what_a_start_waits_for_is_shown_with_how_far_it_is(gpunion: Terminal, campus: CampusDouble) -> None:
    preparing = {"run_id": "r", "what": "fetching its image", "done": 0.43}
    job = a_job(1, phase="starting", preparing=preparing)
    campus.known[job["id"]] = job
    assert gpunion("ps") == OK
    assert "fetching its image, 43%" in gpunion.out
    assert gpunion("why", job["id"]) == OK
    assert "Right now: fetching its image, 43%" in gpunion.out


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ((), {"name": "jax:1"}),
        (("--entrypoint", "python -m app"), {"name": "app", "entrypoint": ["python", "-m", "app"]}),
        (("--entrypoint", "", "--", "true"), {"name": "true", "entrypoint": [], "command": ["true"]}),
    ],
)
def test_a_job_may_leave_to_its_image_what_runs(
    gpunion: Terminal, campus: CampusDouble, words: tuple[str, ...], asked: dict[str, object]
) -> None:
    assert gpunion("submit", "--no-dir", "--image", "jax:1", *words) == 0
    assert {"image": "jax:1", **asked}.items() <= campus.submitted[0].items()
