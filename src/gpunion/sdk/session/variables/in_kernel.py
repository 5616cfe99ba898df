"""What the server has a kernel run: a line without a trace in the notebook's history or its variables.

Both calls leave what came of them in a file, and `until` keeps a call that was given up, and waits behind a
long cell, from being done after all.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from gpunion.sdk.session.variables.snapshot import Lacking, in_words


def line(call: str, **words: object) -> str:
    """The code that makes this call in a kernel."""
    return f"__import__('importlib').import_module({__name__!r}).{call}({json.dumps(words)!r})"


def save(words: str) -> None:
    told = json.loads(words)
    if time.time() > told["until"]:
        return
    from gpunion.sdk.session.variables import saving  # where cloudpickle is missing, that is the answer

    shell = _shell()
    order = saving.Order(
        into=Path(told["into"]),
        limit_s=min(float(told["limit_s"]), told["until"] - time.time()),
        older=Path(told["older"]) if told["older"] else None,
        hidden=shell.user_ns_hidden,
        beside=bool(told["beside"]),
    )
    saving.save(shell.user_ns, order)


def load(words: str) -> None:
    told = json.loads(words)
    folder = Path(told["folder"])
    try:
        from gpunion.sdk.session.variables import loading

        lacking = loading.load(folder, _shell().user_ns)
    except ImportError as error:
        lacking = [Lacking("all variables", in_words(error))]
    Path(told["answer"]).write_text(
        json.dumps([{"name": one.name, "why": one.why} for one in lacking]), encoding="utf-8"
    )


def _shell() -> Any:
    from IPython.core.getipython import get_ipython

    return get_ipython()
