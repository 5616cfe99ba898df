"""The program goes with a machine that leaves, where the campus's script has put it there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpunion.agent import leaving as purging
from gpunion.agent.leaving import INSTALLED_MARK, Receipt


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation, with a link to it in one folder of programs and somebody else's in another."""
    home = tmp_path / "gpunion"
    program = home / "venv" / "bin" / "gpunion"
    program.parent.mkdir(parents=True)
    program.touch()
    for folder, leads_to in (("ours", program), ("theirs", tmp_path / "another")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "gpunion").symlink_to(leads_to)
    monkeypatch.setattr(purging, "LINK_DIRS", (tmp_path / "ours", tmp_path / "theirs", tmp_path / "none"))
    monkeypatch.setattr(sys, "prefix", str(home / "venv"))
    return home


def test_the_program_and_the_link_to_it_go_and_somebody_else_s_stays(home: Path) -> None:
    (home / INSTALLED_MARK).touch()
    receipt = Receipt()
    purging._remove_program(receipt)
    assert not home.exists()
    assert [path.name for path in home.parent.iterdir() if list(path.iterdir())] == ["theirs"]
    assert receipt.removed == {"program": [str(home.parent / "ours" / "gpunion"), str(home)]}
    assert receipt.left_behind == []


def test_what_the_script_did_not_install_stays(home: Path) -> None:
    receipt = Receipt()
    purging._remove_program(receipt)
    assert home.exists()
    assert (home.parent / "ours" / "gpunion").exists()
    assert receipt.removed == {}


NOBODY_KNOWS_THEM = """
import pwd
from pathlib import Path
pwd.getpwuid = {}.__getitem__  # as with a directory service that is away
from gpunion.agent.leaving import installed
print(installed(Path("/nowhere")))
"""


def test_a_user_whose_home_nobody_knows_can_leave() -> None:
    told = subprocess.run(
        [sys.executable, "-c", NOBODY_KNOWS_THEM],
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.stdout, told.stderr) == ("[]\n", "")
