"""A session entered by this machine's own ssh: a command, files there and back, and its end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.scene import LIMIT_S, PATIENT, Scene

JOB = {"resources": {"gpus": 1, "cpus": 0.1, "memory": "512MiB"}}
SIZE_BYTES = 8 * 1024**2


@pytest.fixture
def one_lab(tmp_path: Path) -> Iterator[Scene]:
    opened = Scene.open(tmp_path / "campus", labs=("a",), timing=PATIENT)
    try:
        yield opened
    finally:
        opened.close()


class Person:
    """Somebody at their own machine, with a home of their own."""

    def __init__(self, scene: Scene, home: Path) -> None:
        home.mkdir()
        campus = scene.campus
        self.environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
        self.environment |= {"GPUNION_URL": campus.url, "GPUNION_TOKEN": campus.token}
        self.settings = home / ".config" / "gpunion" / "ssh" / "config"

    def runs(self, *words: str, typed: str = "") -> str:
        done = subprocess.run(
            words,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            input=typed,
        )
        assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def gpunion(self, *words: str) -> str:
        return self.runs(sys.executable, "-m", "gpunion", *words)


@pytest.mark.requires("bwrap", "sshd")
def test_a_shell_its_files_and_its_end(one_lab: Scene, tmp_path: Path) -> None:
    person = Person(one_lab, tmp_path / "home")
    person.gpunion("ssh", "--config")
    key = (tmp_path / "home/.config/gpunion/ssh/id_ed25519.pub").read_text().strip()
    with one_lab.campus.client() as client:
        client.start_session("work", "shell", job=JOB, ssh_keys=[key])
        until_s = time.monotonic() + LIMIT_S
        while not client.session("work")["ready"]:
            assert time.monotonic() < until_s, client.session("work")
            time.sleep(0.2)

    assert person.gpunion("ssh", "work", "--", "id", "-un").strip() == "guest"
    files = person.gpunion("ssh", "work", "--", "pwd")
    assert files in person.gpunion("ssh", "work", "--", "printenv", "GPUNION_OUTPUT_DIR")
    logged_in = person.runs("ssh", "-tt", "-F", str(person.settings), "gpunion-work", typed="pwd\nexit\n")
    assert files.strip() in logged_in.split()  # and not where nothing is kept
    data = tmp_path / "data"
    data.write_bytes(os.urandom(SIZE_BYTES))
    settings = ["-F", str(person.settings)]
    person.runs("scp", *settings, str(data), "gpunion-work:data")
    person.runs("scp", *settings, "gpunion-work:data", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data.read_bytes()

    person.gpunion("sync", "work", str(tmp_path / "here"))
    assert (tmp_path / "here" / "data").read_bytes() == data.read_bytes()
    (tmp_path / "here" / "data").write_text("newer here")
    later_s = time.time() + 60
    os.utime(tmp_path / "here" / "data", (later_s, later_s))
    assert '"kept": [\n    "data"' in person.gpunion("sync", "work", str(tmp_path / "here"), "--json")
    assert (tmp_path / "here" / "data").read_text() == "newer here"

    person.gpunion("sessions", "end", "work")
    with one_lab.campus.client() as client:
        job_id = client.session("work")["job_id"]
    assert one_lab.until_over(job_id)["phase"] == "succeeded"
    person.gpunion("sync", "work", str(tmp_path / "after"))
    assert (tmp_path / "after" / "data").read_bytes() == data.read_bytes()
