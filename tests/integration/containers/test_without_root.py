"""A user who is nobody special lends a machine with Podman: no root, no ids beside its own, no cgroups."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_machine import PATIENCE_S
from tests.services import CHECKOUT, ORDINARY_USER, PLAIN_PYTHON, as_ordinary_user

SCENE = "tests.integration.containers.rootless_scene"


@pytest.fixture
def home() -> Iterator[Path]:
    """Where that user may write and get to, which is not true of pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="gpunion-home-"))
    (folder / "run").mkdir(mode=0o700)
    for path in (folder, folder / "run"):
        os.chown(path, ORDINARY_USER, ORDINARY_USER)
    yield folder
    # Podman leaves a process that keeps its namespace open, and mounts that are seen in that one alone.
    for note in folder.glob("run/**/pause.pid"):
        os.kill(int(note.read_text()), signal.SIGKILL)
    shutil.rmtree(folder)


@pytest.mark.requires("podman", "rootless")
def test_without_root_guests_in_podman_are_frozen_killed_and_held_to_their_memory(home: Path) -> None:
    done = subprocess.run(
        as_ordinary_user(PLAIN_PYTHON, "-P", "-m", SCENE, str(home / "s")),
        env={
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "PATH": "/usr/sbin:/usr/bin:/bin",
            "PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        cwd="/",
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    story = json.loads(done.stdout)
    assert "memory" not in story["unenforced"]
    assert f"user {ORDINARY_USER} outside" in story["described"]
    assert story["alive"] == [True]
    assert set(story["frozen"]) == {"T"}
    assert (story["killed"], story["left"]) == (True, 0)
    ends = {"job-1-e1": "killed_by_owner", "job-2-e1": "out_of_memory"}
    assert (story["ends"], story["containers"]) == (ends, [])
