"""What a machine that is no node yet fetches: the script that makes it one, and the package."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx

from gpunion.coordinator.wheel import WHEEL_NAME
from tests.integration.coordinator.process import Coordinator


def fetch(shared: Coordinator, path: str, **headers: str) -> httpx.Response:
    return httpx.get(shared.url + path, headers=headers, trust_env=False, timeout=60)


def test_the_script_knows_its_campus_and_a_shell_understands_it(shared: Coordinator, tmp_path: Path) -> None:
    answer = fetch(shared, "/install.sh")
    assert answer.status_code == 200
    assert f'url="{shared.url}"' in answer.text
    script = tmp_path / "install.sh"
    script.write_text(answer.text)
    subprocess.run(["sh", "-n", str(script)], check=True)
    environment = {**os.environ, "HOME": str(tmp_path), "GPUNION_STATE_DIR": str(tmp_path / "state")}
    words = ["sh", str(script), "--home", str(tmp_path / "home"), "--lab", "vision"]
    refused = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "there is no join token" in refused.stderr
    assert sorted(tmp_path.iterdir()) == [script]  # nothing is made before that is known


def test_a_host_that_is_no_host_gets_into_no_script(shared: Coordinator) -> None:
    answer = fetch(shared, "/install.sh", host='x";touch evil;"')
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_host")
    assert fetch(shared, "/install.sh", **{"x-forwarded-proto": "https"}).text.count("https://127.0.0.1") > 0


def test_the_package_is_what_runs_here_and_nothing_else_is_given_away(shared: Coordinator) -> None:
    answer = fetch(shared, f"/install/{WHEEL_NAME}")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as wheel:
        assert wheel.testzip() is None
        names = wheel.namelist()
        assert "gpunion/coordinator/install.sh" in names
        told = wheel.read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert "Requires-Dist: msgspec; extra == 'agent'" in told
    assert "gpunion/cli/demo/train_numpy.py" in names
    assert fetch(shared, "/install/admin.token").status_code == 404
    assert fetch(shared, "/install/../api/v1/jobs").status_code in (401, 404)


def test_the_demo_has_its_program_where_only_the_package_is(shared: Coordinator, tmp_path: Path) -> None:
    """Without a checkout around it."""
    with zipfile.ZipFile(io.BytesIO(fetch(shared, f"/install/{WHEEL_NAME}").content)) as wheel:
        wheel.extractall(tmp_path / "installed")
    demo = """
from pathlib import Path
from gpunion.cli.demo.training_job import Training, reference_run, script_path
assert script_path().is_relative_to(Path.cwd())
print(reference_run(Path.cwd(), Training(name="train", steps=3, seed=7)))
"""
    done = subprocess.run(
        [sys.executable, "-c", demo],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (Path(done.stdout.strip()) / "weights.sha256").read_text()


# A Python that makes an environment of itself, and a gpunion that says how it was called.
PYTHON = """#!/bin/sh
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$(dirname "$0")/gpunion" "$3/bin/" ;;
esac
"""


def test_what_the_script_says_at_its_end_names_the_folder_that_was_chosen(
    shared: Coordinator, tmp_path: Path
) -> None:
    script, programs = tmp_path / "install.sh", tmp_path / "programs"
    script.write_text(fetch(shared, "/install.sh").text)
    programs.mkdir()
    for name, text in (("python3", PYTHON), ("gpunion", '#!/bin/sh\necho "called: $*"\n')):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    environment = {"HOME": str(tmp_path), "PATH": f"{programs}:{os.environ['PATH']}"}
    words = ["sh", str(script), "--token", "one", "--home", str(tmp_path / "home"), "--no-service"]

    def last_line(*more: str) -> str:
        done = subprocess.run([*words, *more], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[-1]

    program, state = tmp_path / "home/venv/bin/gpunion", tmp_path / "state"
    assert last_line("--state-dir", str(state)).endswith(f": {program} status --state-dir {state}")
    assert last_line().endswith(f": {program} status")
