"""Brings a snapshot's variables back into a kernel."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from gpunion.sdk.session.variables.packing import Namespace, Unpacker
from gpunion.sdk.session.variables.snapshot import About, Group, Lacking, in_words, read_about


def load(folder: Path, namespace: Namespace) -> list[Lacking]:
    """What is lacking now, with what could not be saved. A variable that does not come back costs its group
    and no other."""
    about = read_about(folder)
    if about is None:
        return [Lacking("all variables", "nothing was saved of this kernel")]
    sys.path[:] = list(dict.fromkeys([*sys.path, *about.sys_path]))
    if os.path.isdir(about.directory):
        os.chdir(about.directory)
    lacking = {one.name: one.why for one in about.unsaved}
    lacking |= _import(about, namespace)
    # The oldest first: what was saved again later replaces what came with an older group.
    for group in sorted(about.groups, key=lambda group: group.saved_at):
        lacking |= _read(folder, group, namespace)
    return [Lacking(name, why) for name, why in lacking.items()]


def _import(about: About, namespace: Namespace) -> dict[str, str]:
    failed = {}
    for name, module in about.modules.items():
        try:
            namespace[name] = importlib.import_module(module)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failed[name] = f"the module {module} cannot be imported here: {in_words(error)}"
    return failed


def _read(folder: Path, group: Group, namespace: Namespace) -> dict[str, str]:
    try:
        with open(folder / group.file, "rb") as file:
            file.seek(group.at)
            values = Unpacker(file, namespace).load()
        namespace.update({name: values[name] for name in group.names})
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return dict.fromkeys(group.names, f"it cannot be read here: {in_words(error)}")
    return {}
