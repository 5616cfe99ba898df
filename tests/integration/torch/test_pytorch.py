"""PyTorch state that is saved beside the training comes back bit for bit, for one process and for two."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gpunion

pytestmark = [pytest.mark.requires("torch"), pytest.mark.timeout(120)]

PROGRAM = Path(__file__).with_name("program.py")


def run(
    root: Path, asks: dict[int, bool], *, resume: bool = False, ranks: int = 0, **more: str
) -> list[dict[str, Any]]:
    own = a_guest_of(root, resume=resume) | more
    together = in_one_group(ranks) if ranks else {}
    each = [{**own, **together, "RANK": str(rank)} for rank in range(ranks)] or [own]
    return ended([begun(environment, asks) for environment in each])


def run_gang(roots: list[Path], asks: list[dict[int, bool]], *, resume: bool = False) -> list[dict[str, Any]]:
    """Each member with directories of its own, all in one group."""
    together = {**in_one_group(len(roots)), "GPUNION_GANG_SIZE": str(len(roots)), "AT_STEP": "15"}
    members = []
    for rank, root in enumerate(roots):
        own = a_guest_of(root, resume=resume) | {"RANK": str(rank), "GPUNION_GANG_RANK": str(rank)}
        members.append(begun({**together, **own}, asks[rank]))
    return ended(members)


def a_guest_of(root: Path, *, resume: bool) -> dict[str, str]:
    for name in ("checkpoint", "control"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "control" / "request.json").unlink(missing_ok=True)
    return {
        "GPUNION_CHECKPOINT_DIR": str(root / "checkpoint"),
        "GPUNION_CONTROL_DIR": str(root / "control"),
        "GPUNION_RESUME": str(int(resume)),
    }


def in_one_group(ranks: int) -> dict[str, str]:
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}


def begun(own: dict[str, str], asks: dict[int, bool]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), json.dumps(asks)],
        env={**os.environ, "PYTHONPATH": str(Path(gpunion.__file__).parents[1]), **own},
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(started: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    return [json.loads(process.communicate()[0].splitlines()[-1]) for process in started]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_a_training_that_is_moved_has_the_losses_of_one_that_is_not(tmp_path: Path) -> None:
    (alone,) = run(tmp_path / "alone", {})
    (first,) = run(tmp_path / "moved", {10: False, 20: True})
    assert first.pop("exit") == 85
    saved = json.loads((tmp_path / "moved" / "control" / "saved.json").read_text())
    assert saved["files"] == [f"step-{saved['step']}/rank-0.{part}" for part in ("state", "tensors")]
    assert saved["stall_s"] >= 0.0
    (second,) = run(tmp_path / "moved", {}, resume=True)
    assert min(map(int, second)) == saved["step"]
    assert {**first, **second} == alone


def test_two_ranks_save_at_the_same_step_and_go_on_from_it(tmp_path: Path) -> None:
    alone = run(tmp_path / "alone", {}, ranks=2)
    first = run(tmp_path / "moved", {12: False, 23: True}, ranks=2)
    assert [losses.pop("exit") for losses in first] == [85, 85]
    assert first[0].keys() == first[1].keys()
    second = run(tmp_path / "moved", {}, resume=True, ranks=2)
    assert [{**one, **two} for one, two in zip(first, second, strict=True)] == alone


def test_two_ranks_end_their_piece_at_the_same_step_when_their_window_is_over(tmp_path: Path) -> None:
    alone = run(tmp_path / "alone", {}, ranks=2)
    first = run(tmp_path / "moved", {}, ranks=2, GPUNION_WINDOWS="1", WINDOW_AT="12")
    assert [losses.pop("exit") for losses in first] == [85, 85]
    assert [max(map(int, losses)) for losses in first] == [14, 14]  # they agree at every fifth step
    control = tmp_path / "moved" / "control"
    assert json.loads((control / "progress.json").read_text())["step"] == 15
    assert json.loads((control / "piece.json").read_text())["steps"] == 12
    (control / "window.json").unlink()
    second = run(tmp_path / "moved", {}, resume=True, ranks=2)
    assert [{**one, **two} for one, two in zip(first, second, strict=True)] == alone


def test_members_of_a_gang_save_at_the_step_they_are_told_each_for_itself(tmp_path: Path) -> None:
    roots = [tmp_path / "first", tmp_path / "second"]
    alone = run_gang([tmp_path / "a", tmp_path / "b"], [{}, {}])
    first = run_gang(roots, [{3: True}, {7: True}])  # asked at different moments
    assert [losses.pop("exit") for losses in first] == [85, 85]
    saved = [json.loads((root / "control" / "saved.json").read_text()) for root in roots]
    assert [one["step"] for one in saved] == [15, 15]
    assert {name for one in saved for name in one["files"]} == {
        f"step-15/rank-0.{part}" for part in ("state", "tensors")
    }
    second = run_gang(roots, [{}, {}], resume=True)
    assert [{**one, **two} for one, two in zip(first, second, strict=True)] == alone
