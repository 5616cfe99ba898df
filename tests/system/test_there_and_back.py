"""A directory goes to a node with the packages it asks for, and what the job makes comes back."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpunion.cli.context import Context
from gpunion.cli.main import main
from gpunion.cli.output.screen import Screen
from tests.system.scene import PATIENT, Scene
from tests.unit.agent.machine.test_packages import a_wheel

pytestmark = [pytest.mark.xdist_group("there-and-back"), pytest.mark.timeout(300)]

JOB = ("--environment", "env/requirements.txt", "--gpus", "0", "--memory", "64MiB")
PROGRAM = """
import os, pathlib, sys, tiny
here = pathlib.Path(os.environ["GPUNION_OUTPUT_DIR"])
(here / "sub").mkdir()
(here / "sub" / "sizes").write_text(f"{tiny.VERSION} {len(pathlib.Path('data/big').read_bytes())}")
print("made it")
sys.exit(int(os.environ.get("EXIT", "0")))
"""


@dataclass
class Student:
    scene: Scene
    here: Path
    err: str = ""

    def __call__(self, *words: str) -> tuple[int, str]:
        campus = self.scene.campus
        environment = {"GPUNION_URL": campus.url, "GPUNION_TOKEN": campus.token, "HOME": str(self.here)}
        screen = Screen(out=io.StringIO(), err=io.StringIO())
        code = main(list(words), Context(screen=screen, environment=environment, here=self.here))
        self.err = screen.err.getvalue()  # type: ignore[attr-defined]
        return code, screen.out.getvalue()  # type: ignore[attr-defined]


@pytest.fixture
def student(tmp_path: Path) -> Iterator[Student]:
    scene = Scene.open(tmp_path / "campus", labs=("a",), timing=PATIENT)
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    (project / "data" / "big").write_bytes(bytes(9_000_000))
    (project / "train.py").write_text(PROGRAM)
    (project / "env").mkdir()
    (project / "env" / "requirements.txt").write_text("--no-index\n-f wheels\ntiny==1.0\n")
    a_wheel(project / "env" / "wheels")
    try:
        yield Student(scene, project)
    finally:
        scene.close()


def test_a_directory_and_its_packages_go_there_and_outputs_come(student: Student, tmp_path: Path) -> None:
    job = (
        "--environment",
        "env/requirements.txt",
        "--gpus",
        "0",
        "--memory",
        "64MiB",
        "--",
        "python",
        "train.py",
    )
    code, said = student("run", "--output", str(tmp_path / "results"), *job)
    assert (code, said) == (0, "made it\n"), student.err
    assert (tmp_path / "results" / "sub" / "sizes").read_text() == "1.0 9000000"

    # Once more: nothing is sent, nothing is fetched, nothing is installed again.
    installed = student.scene.campus.state_dir("a") / "cache" / "packages"
    before = {path.name: path.stat().st_ino for path in installed.iterdir()}
    code, said = student("run", "--json", *job)
    assert code == 0, student.err
    assert "Sending" not in student.err
    assert {path.name: path.stat().st_ino for path in installed.iterdir()} == before
    job_id = json.loads(said.splitlines()[-1])["job"]["id"]
    code, said = student("cp", f"{job_id}:sub/sizes", "sizes", "--json")
    assert (code, json.loads(said)["final"]) == (0, True)
    assert (student.here / "sizes").read_text() == "1.0 9000000"


def test_what_a_failed_job_has_made_comes_back(student: Student) -> None:
    code, _ = student("run", "--env", "EXIT=3", "--output", "results", *JOB, "--", "python", "train.py")
    assert code == 3, student.err
    assert (student.here / "results" / "sub" / "sizes").read_text() == "1.0 9000000"
