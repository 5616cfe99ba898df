"""Parts of gpunion that are installed only where they are needed."""

from __future__ import annotations

from gpunion.cli.exits import Trouble


def missing_extra(error: ImportError, extra: str) -> Trouble:
    """For an import that failed for want of a library. Anything else missing is a bug and stays one."""
    if error.name is None or error.name.split(".")[0] == "gpunion":
        raise error
    return Trouble(
        f"this needs {error.name}, which is not installed here",
        why=f"it comes with the extra {extra!r}, so that machines which do not need it stay light",
        next_step=f"python -m pip install 'gpunion[{extra}]'",
    )
