"""A notebook on a lent GPU in a real browser, while its machine's owner comes and goes.

`make browser` runs this; GPUNION_SHOTS=FOLDER keeps pictures of what was seen.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.sessions.browser import NotebookPage, cells, chromium
from tests.sessions.campus import LIMIT_S, a_campus

pytestmark = [
    pytest.mark.requires("jupyterlab", "playwright", "chromium"),
    pytest.mark.xdist_group("system"),
    pytest.mark.timeout(4 * LIMIT_S),
]

FILL = "numbers = list(range(1000))\nlines = (n for n in numbers)\nnext(lines)\nprint('filled', len(numbers))"
ASK = "numbers.append(0)\nprint('there are', len(numbers))"
GENERATOR = "print('line', next(lines))"


def shot(page: NotebookPage, name: str) -> None:
    folder = os.environ.get("GPUNION_SHOTS")
    if folder:
        page.shot(Path(folder) / f"session-{name}.png")


@pytest.mark.requires("bwrap")
def test_a_page_goes_on_with_its_variables_after_its_owner_came(tmp_path: Path) -> None:
    with a_campus(tmp_path / "campus", "sandbox") as campus, campus.notebook("course") as opened:
        content = {"type": "notebook", "content": cells(FILL, ASK, GENERATOR)}
        opened.jupyter.ask("PUT", "/api/contents/own.ipynb", json=content)
        with chromium() as browser:
            page = NotebookPage(browser, opened)
            page.open("own.ipynb")
            page.run(0, "filled 1000")
            page.state("Running")
            shot(page, "running")
            before = campus.until("course", "known", lambda now: now["kernels"] == 1 and now["ready"])
            campus.reclaim(before["node"], notice_s=40.0)
            page.state("Leaving")
            page.page.locator("#countdown").wait_for()
            assert re.fullmatch(r"0:\d\d", page.text("#countdown"))
            assert "Variables come along" in page.text("#says")
            shot(page, "leaving")
            page.state("Moving")
            page.begin(1)  # it waits, and is answered on the other machine
            shot(page, "moving")
            page.state("Running")
            output = page.lab.locator(".jp-NotebookPanel .jp-Cell").nth(1).locator(".jp-OutputArea-output")
            output.filter(has_text="there are 1001").first.wait_for()
            page.page.locator("#missing-list", has_text="a generator cannot be saved").wait_for()
            after = campus.session("course")
            shot(page, "after")
            assert after["node"] != before["node"]
            assert after["restored"] == "variables"
            assert page.text("#why-not").startswith("Why no better: ")  # the list has opened by itself
            page.run(2, "NameError")
            page.page.locator("#seen").click()
            assert page.page.locator("#missing").is_hidden()
            assert (page.loads, page.dialogs()) == (1, 0)


@pytest.mark.requires("podman", "criu")
def test_a_page_goes_on_with_everything_where_guests_are_moved_whole(tmp_path: Path) -> None:
    with a_campus(tmp_path / "campus", "podman") as campus, campus.notebook("whole") as opened:
        campus.until_dumpable()
        content = {"type": "notebook", "content": cells(FILL, ASK, GENERATOR)}
        opened.jupyter.ask("PUT", "/api/contents/own.ipynb", json=content)
        with chromium() as browser:
            page = NotebookPage(browser, opened)
            page.open("own.ipynb")
            page.run(0, "filled 1000")
            before = campus.until("whole", "at level whole", lambda now: now["level"] == "whole")
            campus.reclaim(before["node"], notice_s=60.0)
            page.state("Moving")
            page.begin(2)
            page.state("Running")
            output = page.lab.locator(".jp-NotebookPanel .jp-Cell").nth(2).locator(".jp-OutputArea-output")
            output.filter(has_text="line 1").first.wait_for()
            after = campus.until("whole", "told how", lambda now: now["restored"])
            shot(page, "whole")
            assert after["node"] != before["node"]
            assert (after["restored"], after["missing"]) == ("whole", [])
            assert (page.loads, page.dialogs()) == (1, 0)
