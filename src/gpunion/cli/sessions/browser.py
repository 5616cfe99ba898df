"""Opens an address in the user's browser, by way of a file that nobody else reads.

The address has the session's token in it, and a list of processes shows every word that a browser is started
with to every user of the machine. So it is started with the name of a page that leads there.
"""

from __future__ import annotations

import html
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

# Browsers that are only just started take their time; a command that has said an address ends at once.
STAYS_S = 60.0
# By a process of its own, so that it goes whatever becomes of this one.
REMOVE = ("sh", "-c", 'sleep "$1"; rm -rf -- "$2"', "sh")


def open_page(
    url: str, home: Path, opens: Callable[[str], bool] | None = None, *, stays_s: float = STAYS_S
) -> subprocess.Popen[bytes] | None:
    """None where there is no browser: then the address was said, and is opened by hand. Otherwise what
    removes the page that leads there."""
    import webbrowser

    folder: Path | None = None
    opened = False
    try:
        folder = _folder(home)
        opened = (opens or webbrowser.open)(_page(folder, url).as_uri())
        return _removing(folder, stays_s) if opened else None
    except (OSError, webbrowser.Error):
        opened = False
        return None
    finally:
        if folder is not None and not opened:
            shutil.rmtree(folder, ignore_errors=True)


def _folder(home: Path) -> Path:
    """Browsers in a sandbox of their own see neither /tmp nor what begins with a dot at home."""
    try:
        return Path(tempfile.mkdtemp(prefix="gpunion-page-", dir=home))
    except OSError:
        return Path(tempfile.mkdtemp(prefix="gpunion-page-"))


def _page(folder: Path, url: str) -> Path:
    path = folder.resolve() / "open.html"
    address = html.escape(url, quote=True)
    text = (
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0; url={address}"><title>Session</title>'
        f'<p><a href="{address}">To the session</a></p>'
    )
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return path


def _removing(folder: Path, stays_s: float) -> subprocess.Popen[bytes]:
    words = [*REMOVE, str(stays_s), str(folder)]
    null = subprocess.DEVNULL
    return subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True)
