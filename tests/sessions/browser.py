"""A notebook in a real Chromium, as its user sees and works it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.sessions.campus import LIMIT_S, Opened

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-quic", "--no-first-run"),
)
LIMIT_MS = LIMIT_S * 1000


def cells(*sources: str) -> dict[str, Any]:
    """A notebook's content."""
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    rows: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": source,
        }
        for number, source in enumerate(sources)
    ]
    return {"cells": rows, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class NotebookPage:
    """`loads` counts how often the page was loaded: a page that goes on is loaded once."""

    def __init__(self, browser: Any, opened: Opened) -> None:
        self.page = browser.new_page()
        self.page.set_viewport_size({"width": 1280, "height": 800})
        self.page.set_default_timeout(LIMIT_MS)
        self.loads = 0
        self.page.on("load", lambda _: setattr(self, "loads", self.loads + 1))
        self.page.goto(opened.url)
        self.lab = self.page.frame_locator("#lab")

    def open(self, name: str) -> None:
        self.lab.locator(".jp-DirListing-item", has_text=name).dblclick()
        self.lab.locator(".jp-NotebookPanel .jp-Cell").first.wait_for()
        self.lab.get_by_text("| Idle").first.wait_for()  # else it asks which kernel it should have

    def begin(self, number: int) -> None:
        cell = self.lab.locator(".jp-NotebookPanel .jp-Cell").nth(number)
        cell.locator(".cm-content").click()
        cell.locator(".cm-content").press("Control+Enter")

    def run(self, number: int, says: str) -> None:
        """Press Ctrl-Enter in a cell, and wait for its answer."""
        self.begin(number)
        output = self.lab.locator(".jp-NotebookPanel .jp-Cell").nth(number).locator(".jp-OutputArea-output")
        output.filter(has_text=says).first.wait_for()

    def state(self, word: str) -> None:
        """Wait until the bar says so."""
        self.page.locator("#state", has_text=word).wait_for()

    def text(self, place: str) -> str:
        return str(self.page.locator(place).inner_text())

    def dialogs(self) -> int:
        return int(self.lab.locator(".jp-Dialog").count())

    def shot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(path))
