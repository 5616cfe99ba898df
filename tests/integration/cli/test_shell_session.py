"""A shell's session where the environment has no sshd."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpunion.sdk.session.ssh import SSHD_PLACES
from tests.integration.cli.program import Program

pytestmark = [
    pytest.mark.skipif(shutil.which("ssh") is None, reason="there is no ssh here"),
    pytest.mark.skipif(shutil.which("sshd", path=SSHD_PLACES) is not None, reason="there is an sshd here"),
    pytest.mark.xdist_group("cli-lending"),
]


def test_it_says_so_at_once_and_its_files_are_there_now_and_at_its_end(
    lending: Program, tmp_path: Path
) -> None:
    (tmp_path / "data.csv").write_text("1,2\n")
    small = ["--cpus", "0.1", "--memory", "64MiB"]
    for words in (["--new", "--dir", ".", *small], []):
        asked = lending("ssh", "work", *words, here=tmp_path)
        assert asked.code == 6, asked.err
        assert "nobody can enter work by ssh" in asked.err
        assert "there is no sshd in this environment" in asked.err
    synced = lending("sync", "work", str(tmp_path / "now"))
    assert synced.code == 0, synced.err
    assert (tmp_path / "now" / "data.csv").read_text() == "1,2\n"
    assert lending("sessions", "end", "work").code == 0
    lending.wait_for(lambda: lending("why", "work", "--json").json()["phase"] == "succeeded", "it is over")
    synced = lending("sync", "work", str(tmp_path / "after"))
    assert synced.code == 0, synced.err
    assert (tmp_path / "after" / "data.csv").read_text() == "1,2\n"
