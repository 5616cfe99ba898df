"""The first program in a container: waits at the gate, then runs the guest's.

The gate is a pipe. Its keeper opens it once it has written down where the container can be found and killed,
so that no line of a guest's runs before; if the keeper dies first it stays shut. The guest's output goes to
another pipe, which the keeper reads: an engine that restarts loses none of it.

It is the first process of its namespace and stays: it collects orphans, and with it everything ends. The
guest's variables are in this script and in no command line of the host.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DOORS_DIR, GATE, OUTPUT, ENTER = "doors", "gate", "output", "enter"


def entry_script(
    environment: Mapping[str, str], doors: Path, directory: Path, usual: Collection[str] = ()
) -> str:
    """`usual`: those of the variables that hold only where the image does not say them itself."""
    lines = ["#!/bin/sh", f"read -r _ < {shlex.quote(str(doors / GATE))}"]
    place, output = shlex.quote(str(directory)), shlex.quote(str(doors / OUTPUT))
    lines += [f"cd {place} 2> /dev/null || {{ echo cannot begin in {place} > {output}; exit 126; }}"]
    odd = []
    for name, value in environment.items():
        if name == "PATH":
            # What the image has comes after what the guest asked for.
            lines.append(f'export PATH={shlex.quote(value)}"${{PATH:+:$PATH}}"' if value else "export PATH")
        elif name == "PYTHONPATH":
            lines.append(f'export PYTHONPATH={shlex.quote(value)}"${{PYTHONPATH:+:$PYTHONPATH}}"')
        elif name in usual:
            lines.append(f'export {name}="${{{name}:-{value}}}"')
        elif SHELL_NAME.fullmatch(name):
            lines.append(f"export {name}={shlex.quote(value)}")
        else:
            odd.append(shlex.quote(f"{name}={value}"))
    program = f'env -- {" ".join(odd)} "$@"' if odd else '"$@"'
    # A subshell's exec, so that the name of a shell's builtin is a program like any other.
    lines.append(f"(exec {program}) < /dev/null > {output} 2>&1")
    return "\n".join([*lines, "exit $?", ""])
