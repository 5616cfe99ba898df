"""A Jupyter server extension: saves the variables of all kernels, brings kernels back under their old ids.

It runs inside of JupyterLab's server. A page that is open asks for its kernel by the id; a new server that
did not know it would answer 404, and JupyterLab starts another kernel without a word.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

MODULE = __name__
BACK_FROM = "GPUNION_SESSION_BACK_FROM"  # the folder of the save that this server begins with


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": MODULE}]


def _load_jupyter_server_extension(app: Any) -> None:
    from gpunion.sdk.session.server.handlers import handlers
    from gpunion.sdk.session.server.kernels import Kernels

    kernels = Kernels(app)
    back_from = os.environ.pop(BACK_FROM, "")  # no business of the kernels'
    if back_from:
        # Before the server listens: nobody hears of it while a kernel is missing.
        app.io_loop.asyncio_loop.run_until_complete(kernels.bring_back(Path(back_from)))
    app.web_app.add_handlers(".*$", handlers(app.web_app.settings["base_url"], kernels))
