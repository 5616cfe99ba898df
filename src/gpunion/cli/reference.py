"""docs/cli.md, made from the commands themselves, so that it cannot say what they do not do.

argparse's own help is not used: its layout differs between Python versions, and a document that is checked
for freshness must not.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from gpunion.cli.exits import MEANINGS
from gpunion.cli.jobs.job_file import CHECKPOINT_KEYS, JOB_FILE, KEYS, RESOURCE_KEYS, WINDOW_KEYS, Key
from gpunion.cli.main import build_parser
from gpunion.cli.registry import COMMANDS, Command, Group

INTRODUCTION = """# The command line

Made by `make docs` from the commands themselves; do not edit.

`gpunion` alone lists the commands, `gpunion COMMAND --help` explains one.

- **Durations** are written `10s`, `5m`, `2h` or `1h30m` (a number alone is seconds), **sizes** `20GB` (10^9)
  or `16GiB` (2^30).
- **A job** is named by its name, its id, or the beginning or the end of its id (`gpunion ps` shows the end).
  A word that could mean two jobs is refused, and the answer lists them.
- **`--json`** prints one JSON value on standard output and nothing else; what is shown on standard error is
  not part of it. With `--json` an error is one line of JSON on standard error:
  `{error, why, next_step, exit_code}`. New keys may be added to an object; none is renamed or removed.
- **Which coordinator** is meant: `--url` and `--token`, else `GPUNION_URL` and `GPUNION_TOKEN`, else what
  `gpunion login` kept in `~/.config/gpunion/client.toml` (mode 0600), else a coordinator of the same user on
  the same machine. A token that was kept is only ever sent to the address it was kept for.
- **What travels with a job** is the working directory, without what `.gpunionignore` names (patterns as in a
  `.gitignore`); docs/jobs.md says how it gets there.
- **On a terminal** nothing that a machine or a job said is obeyed: control characters are shown as blanks. Of
  what a program printed (`gpunion logs`, `run`) its colours pass, and carriage returns, backspaces and the
  two sequences with which bars are drawn anew; into a file or a pipe it goes as it was printed.
- **`GPUNION_DEBUG=1`** shows the traceback of a bug; otherwise it is put into a file that the message names.
"""

JOB_FILE_EXAMPLE = """```toml
name = "vit"
command = "python train.py --epochs 3"
expect = "2h"

[resources]
gpus = 1
vram = "20GB"

[checkpoint]
max_interval = "60s"

[env]
SEED = "1"
```
"""


def reference() -> str:
    parts = [INTRODUCTION, *_exit_codes(), *_job_file()]
    for group in Group:
        parts.append(f"## {group.value}\n")
        parts += [text for command in COMMANDS if command.group is group for text in _command(command)]
    return "\n".join(parts)


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n"
    yield "| code | meaning |\n|---|---|"
    yield from (f"| {code} | {meaning} |" for code, meaning in MEANINGS.items())
    yield (
        "\n`gpunion run` and `gpunion logs -f` exit with the job's own code, `gpunion notebook` with that of "
        "a session that failed.\n"
    )


def _job_file() -> Iterator[str]:
    yield f"## The job file, `{JOB_FILE}`\n"
    yield "`gpunion submit` reads it; flags win over it. A key that is not in these tables is an error.\n"
    yield JOB_FILE_EXAMPLE
    for title, keys in (
        ("key", KEYS),
        ("in `[resources]`", RESOURCE_KEYS),
        ("in `[checkpoint]`", CHECKPOINT_KEYS),
        ("in `[windows]`", WINDOW_KEYS),
    ):
        yield from _keys(title, keys)


def _keys(title: str, keys: Mapping[str, Key]) -> Iterator[str]:
    yield f"| {title} | meaning |\n|---|---|"
    yield from (f"| `{name}` | {key.meaning} |" for name, key in keys.items())
    yield ""


def _command(command: Command) -> Iterator[str]:
    module = command.load()
    parser = build_parser(command, module)
    yield f"### `gpunion {command.name}`\n"
    yield f"{parser.description}\n"
    rows = [row for action in parser._actions for row in _row(action)]
    if module.takes_command:
        rows.append("| `-- COMMAND ...` | the command to run |")
    if rows:
        yield "| | |\n|---|---|"
        yield from rows
        yield ""
    if module.examples:
        yield "```sh"
        yield from module.examples
        yield "```\n"
    if module.json_shape is not None:
        yield f"`--json`: {module.json_shape}\n"


def _row(action: argparse.Action) -> Iterator[str]:
    if isinstance(action, argparse._HelpAction):
        return
    value = action.metavar or ("|".join(action.choices) if action.choices else (action.dest or "").upper())
    if not action.option_strings:
        shown = f"`{value}`"
    elif action.nargs == 0:
        shown = f"`{', '.join(action.option_strings)}`"
    else:
        shown = f"`{', '.join(action.option_strings)} {value}`"
    needed = " (required)" if action.required and action.option_strings else ""
    yield f"| {shown.replace('|', chr(92) + '|')} | {action.help or ''}{needed} |"
