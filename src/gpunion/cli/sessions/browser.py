"""Opens an address in the user's browser."""

from __future__ import annotations


def open_page(url: str) -> bool:
    """False where there is no browser: then the address was said, and is opened by hand."""
    import webbrowser

    try:
        return webbrowser.open(url)
    except (OSError, webbrowser.Error):
        return False
