"""Reading and writing a directory that a hostile guest can write to."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.keeper import control_files as control
from gpunion.ports.runtime import RuntimeFault


def test_a_message_is_read_back(tmp_path: Path) -> None:
    control.write_json(tmp_path, "request.json", {"id": "c1", "final": True})
    assert control.read_json(tmp_path, "request.json") == {"id": "c1", "final": True}
    assert os.listdir(tmp_path) == ["request.json"]


def test_an_absent_message_is_none_and_can_be_deleted(tmp_path: Path) -> None:
    assert control.read_json(tmp_path, "saved.json") is None
    control.delete(tmp_path, "saved.json")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '"text"', "\xff"])
def test_a_message_that_is_no_object_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "saved.json").write_bytes(text.encode("latin-1"))
    assert control.read_json(tmp_path, "saved.json") is None


def test_an_endless_message_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "saved.json").write_text(json.dumps({"id": "x" * control.FILE_MAX_BYTES}))
    assert control.read_json(tmp_path, "saved.json") is None


def test_a_link_to_a_file_of_the_host_is_not_followed_in_reading(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"secret": 1}')
    inside = tmp_path / "control"
    inside.mkdir()
    (inside / "saved.json").symlink_to(tmp_path / "secret.json")
    assert control.read_json(inside, "saved.json") is None


def test_a_pipe_does_not_block_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "saved.json")
    assert control.read_json(tmp_path, "saved.json") is None


def test_a_link_in_the_place_of_a_message_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("of the host")
    inside = tmp_path / "control"
    inside.mkdir()
    (inside / "request.json").symlink_to(precious)
    control.write_json(inside, "request.json", {"id": "c1"})
    assert precious.read_text() == "of the host"
    assert control.read_json(inside, "request.json") == {"id": "c1"}


def test_a_directory_in_the_place_of_a_message_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "request.json").mkdir()
    with pytest.raises(RuntimeFault):
        control.write_json(tmp_path, "request.json", {"id": "c1"})
    assert [path.name for path in tmp_path.iterdir()] == ["request.json"]  # nothing is left of the try
