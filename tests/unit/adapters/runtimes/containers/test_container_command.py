"""An engine's command line that does not answer as one would like; its program is a small shell script."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.adapters.runtimes.containers.container_command import IN_BETWEEN_TRIES, Engine, EngineTrouble

TORN = 'Error: locating item named "manifest" for image with ID "f3dd885e": file does not exist'


def an_engine(folder: Path, *, torn_times: int, said: str = TORN) -> Engine:
    """Fails so many times, and counts how often it was called."""
    program = folder / "engine"
    program.write_text(
        f"""echo called >> {folder}/calls
if [ "$(wc -l < {folder}/calls)" -le {torn_times} ]; then echo '{said}' >&2; exit 125; fi
echo the answer
"""
    )
    return Engine("podman", ["/bin/sh", str(program)])


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text().splitlines())


def test_an_image_that_somebody_else_makes_or_removes_meanwhile_is_not_the_answer(tmp_path: Path) -> None:
    assert an_engine(tmp_path, torn_times=2).call("image", "inspect", "x") == "the answer"
    assert calls(tmp_path) == 3


def test_an_image_that_stays_damaged_is_told_in_the_engines_words(tmp_path: Path) -> None:
    with pytest.raises(EngineTrouble, match="locating item named"):
        an_engine(tmp_path, torn_times=1000).call("image", "inspect", "x")
    assert calls(tmp_path) == IN_BETWEEN_TRIES


def test_any_other_refusal_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(EngineTrouble, match="no such image") as raised:
        an_engine(tmp_path, torn_times=1000, said="Error: no such image").call("image", "inspect", "x")
    assert raised.value.absent
    assert calls(tmp_path) == 1
