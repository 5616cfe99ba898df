"""Opening an address shows its token to no other user of the machine."""

from __future__ import annotations

import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gpunion.cli.sessions.browser import open_page

URL = "http://course.localhost:20001/.gpunion/#of-the-session"


def test_a_browser_is_started_with_a_private_page_that_leads_there_and_is_gone_later(tmp_path: Path) -> None:
    started: list[tuple[str, str, int, int]] = []

    def opens(address: str) -> bool:
        page = Path(unquote(urlsplit(address).path))
        file_mode, folder_mode = (stat.S_IMODE(path.stat().st_mode) for path in (page, page.parent))
        started.append((address, page.read_text(encoding="utf-8"), file_mode, folder_mode))
        return True

    removing = open_page(URL, tmp_path, opens, stays_s=0)
    ((address, text, file_mode, folder_mode),) = started
    assert "of-the-session" not in address
    assert f'content="0; url={URL}"' in text
    assert (file_mode, folder_mode) == (0o600, 0o700)
    assert removing is not None
    assert removing.wait(timeout=60) == 0
    assert list(tmp_path.iterdir()) == []


def test_without_a_browser_nothing_is_left(tmp_path: Path) -> None:
    assert open_page(URL, tmp_path, lambda address: False) is None

    def fails(address: str) -> bool:
        raise OSError("no such program")

    assert open_page(URL, tmp_path, fails) is None
    assert list(tmp_path.iterdir()) == []
