"""A notebook's guest with a real JupyterLab: what a move keeps of it, and what it says of the rest."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from gpunion.sdk.session.variables.snapshot import read_about
from tests.integration.session.guest import GuestOfASession
from tests.real_machine import command_lines
from tests.sessions.jupyter import CellFailed, Jupyter

pytestmark = [pytest.mark.requires("jupyterlab"), pytest.mark.xdist_group("jupyterlab")]

FILL = """
import threading
data = list(range(1000)); scale = 2
def times(x): return x * scale
lines = (n for n in range(9)); next(lines)
lock = threading.Lock()
"""
# Holds the interpreter's lock in C: neither a cell, nor a subshell, nor an interrupt gets a turn.
DEAF = "open('begun', 'w').close(); import ctypes; ctypes.PyDLL(None).sleep(30)"


def the_kernel(lab: Jupyter) -> str:
    return str(lab.ask("GET", "/api/sessions")[0]["kernel"]["id"])


def test_a_notebook_goes_on_elsewhere_under_its_kernels_id_with_its_variables(tmp_path: Path) -> None:
    guest = GuestOfASession(tmp_path / "a")
    (guest.work / "notes.txt").write_text("brought along")
    with guest.running() as lab:
        kernel = lab.open_notebook("own.ipynb")
        lab.run(kernel, FILL)
        assert guest.ask_to_save("one")["step"] == 0
        assert guest.ask_to_save("again")["step"] == 0  # nothing has changed
        lab.run(kernel, "data.append('last')")
        assert guest.ask_to_save("last", final=True, within_s=60.0)["step"] == 1
        assert guest.ended() == 85
    there = guest.moved(tmp_path / "b")
    with there.running() as lab:
        assert the_kernel(lab) == kernel
        said = lab.run(kernel, "scale = 10; print(times(3), len(data), data[-1], open('notes.txt').read())")
        assert said.split(maxsplit=3) == ["30", "1001", "last", "brought along\n"]
        there.wait("the list", lambda: there.told().get("missing"))
        told = there.told()
        assert told["restored"] == "variables"
        assert {one["name"] for one in told["missing"]} == {"lines", "lock"}
        with pytest.raises(CellFailed, match="NameError"):
            lab.run(kernel, "next(lines)")


def test_a_cell_that_goes_on_is_saved_beside_and_that_is_said(tmp_path: Path) -> None:
    guest = GuestOfASession(tmp_path / "a")
    with guest.running() as lab:
        kernel = lab.open_notebook()
        with lab.kernel(kernel) as channel:
            channel.run("done = []")
            channel.begin("import time\nfor n in range(3000): done.append(n); time.sleep(0.02)")
            guest.wait("the cell", lambda: guest.told().get("busy") == 1)
            guest.ask_to_save("last", final=True, within_s=12.0)
    there = guest.moved(tmp_path / "b")
    with there.running() as lab:
        assert int(lab.run(kernel, "print(len(done))")) > 10
        there.wait("the list", lambda: there.told().get("missing"))
        assert "while a cell ran" in there.told()["missing"][0]["why"]


def test_of_a_kernel_that_hears_nobody_the_save_before_is_kept(tmp_path: Path) -> None:
    guest = GuestOfASession(tmp_path / "a")
    with guest.running() as lab:
        kernel = lab.open_notebook()
        lab.run(kernel, "x = 'before'")
        guest.ask_to_save("one")
        with lab.kernel(kernel) as channel:
            channel.run("x = 'after'")
            channel.begin(DEAF)
            guest.wait("the cell", (guest.output / "begun").exists)
            guest.ask_to_save("last", final=True, within_s=8.0)
            assert guest.ended() == 85
    there = guest.moved(tmp_path / "b")
    with there.running() as lab:
        assert lab.run(kernel, "print(x)") == "before\n"


def test_a_server_that_dies_comes_back_with_its_kernels(tmp_path: Path) -> None:
    guest = GuestOfASession(tmp_path / "a")
    with guest.running() as lab:
        kernel = lab.open_notebook()
        lab.run(kernel, "x = 7")
        guest.ask_to_save("one")
        os.kill(pid_of_lab(guest), signal.SIGKILL)
        guest.wait("its end", lambda: not guest.told()["ready"])
        guest.wait("its return", lambda: guest.told()["ready"])
        assert lab.run(kernel, "print(x)") == "7\n"


def test_a_session_that_is_ended_leaves_its_variables_for_one_that_begins_there(tmp_path: Path) -> None:
    guest = GuestOfASession(tmp_path / "a")
    with guest.running() as lab:
        kernel = lab.open_notebook()
        lab.run(kernel, "x = 7")
        (guest.control / "end.json").write_text('{"id": "e1", "why": "nobody has worked in it for 2 h"}')
        assert guest.ended() == 0
    again = GuestOfASession(tmp_path / "b")
    shutil.copytree(guest.output, again.work, dirs_exist_ok=True)
    with again.running() as lab:
        assert lab.run(the_kernel(lab), "print(x)") == "7\n"
        assert again.told()["restored"] == "variables"


def test_files_survive_where_no_kernel_ran(tmp_path: Path) -> None:
    guest = GuestOfASession(tmp_path / "a")
    with guest.running() as lab:
        lab.ask("PUT", "/api/contents/new.txt", json={"type": "file", "format": "text", "content": "text"})
        guest.ask_to_save("last", final=True, within_s=60.0)
    there = guest.moved(tmp_path / "b")
    with there.running():
        assert (there.output / "new.txt").read_text() == "text"
        assert there.told()["missing"] == []


def test_without_its_token_nobody_is_answered(tmp_path: Path) -> None:
    guest = GuestOfASession(tmp_path / "a")
    with guest.running() as lab:
        for path in ("/api/sessions", "/gpunion/state"):
            lab.http.headers["Authorization"] = "token something"
            with pytest.raises(httpx.HTTPStatusError, match="403"):
                lab.ask("GET", path)
        with pytest.raises(httpx.HTTPStatusError, match="403"):
            lab.ask("POST", "/gpunion/save", json={})


def test_a_shell_without_a_notebook_saves_and_ends(tmp_path: Path) -> None:
    guest = GuestOfASession(tmp_path / "a")
    with guest.running("shell"):
        assert guest.ask_to_save("last", final=True, within_s=30.0)["step"] == 0
        assert guest.ended() == 85


def test_where_there_is_no_jupyterlab_it_says_what_to_do(tmp_path: Path) -> None:
    guest = GuestOfASession(tmp_path / "a")
    environment = {**guest.environment(), "PATH": "/usr/bin:/bin"}
    command = ["/usr/bin/python3", "-S", "-m", "gpunion.sdk.session", "notebook"]
    ended = subprocess.run(command, env=environment, cwd=guest.work, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "JupyterLab is not installed here" in ended.stderr


def pid_of_lab(guest: GuestOfASession) -> int:
    marker = str(guest.root / "scratch").encode()
    lines = command_lines()
    return next(pid for pid, line in lines.items() if b"jupyterlab" in line and marker in line)


SLOW_TO_READ = """
class SlowToRead:
    def __setstate__(self, state):
        import time
        time.sleep(40)
        self.__dict__.update(state)
model = SlowToRead(); model.depth = 3; first = 1
"""


def test_variables_that_are_still_being_read_back_survive_the_next_move(tmp_path: Path) -> None:
    guest = GuestOfASession(tmp_path / "a")
    with guest.running() as lab:
        lab.run(lab.open_notebook(), SLOW_TO_READ)
        guest.ask_to_save("last", final=True, within_s=60.0)
        guest.ended()
    there = guest.moved(tmp_path / "b")
    with there.running():
        step = there.ask_to_save("at once", final=True, within_s=20.0)["step"]
        assert there.ended() == 85
    (about,) = (read_about(folder) for folder in (there.checkpoint / f"step-{step}" / "kernels").iterdir())
    assert about is not None
    assert {name for group in about.groups for name in group.names} >= {"model", "first"}
    assert "read back" in {one.name: one.why for one in about.unsaved}["all variables"]


def test_a_move_before_jupyterlab_is_there_keeps_what_was_saved(tmp_path: Path) -> None:
    guest = GuestOfASession(tmp_path / "a")
    with guest.running() as lab:
        kernel = lab.open_notebook()
        lab.run(kernel, "precious = 1")
        guest.ask_to_save("last", final=True, within_s=60.0)
        guest.ended()
    there = guest.moved(tmp_path / "b")
    with there.running("notebook", ready=False):
        there.ask_to_save("at once", final=True, within_s=20.0)
        assert there.ended() == 85
    last = there.moved(tmp_path / "c")
    with last.running() as lab:
        assert lab.run(kernel, "print(precious)").strip() == "1"


def test_a_kernel_that_dies_in_a_cell_is_busy_no_more(tmp_path: Path) -> None:
    guest = GuestOfASession(tmp_path / "a")
    with guest.running() as lab:
        kernel = lab.open_notebook()
        with lab.kernel(kernel) as channels:
            channels.begin(
                "import os, time; open('begun', 'w').close(); time.sleep(2); os.kill(os.getpid(), 9)"
            )
            guest.wait("the cell", lambda: (guest.output / "begun").exists())
            guest.wait("its work", lambda: lab.ask("GET", "/gpunion/state")["busy"] == 1)
            guest.wait("its end", lambda: lab.ask("GET", "/gpunion/state")["busy"] == 0)
