"""From words to an exit code: find the command, load it alone, run it, and say what went wrong in words."""

from __future__ import annotations

import os
import sys

from gpunion.cli.context import Context
from gpunion.cli.exits import ERROR, INTERRUPTED, MEANINGS, OK, USAGE, Trouble
from gpunion.cli.parser import Parser, did_you_mean
from gpunion.cli.registry import COMMANDS, Command, CommandModule, Group, find
from gpunion.sdk.errors import ClientError

GLOBAL_FLAGS = {"--json": 0, "--url": 1, "--token": 1}  # with how many words each takes


def main(words: list[str], context: Context | None = None) -> int:
    context = context or Context()
    # Before anything is parsed: a mistake in the flags is told in JSON as well.
    context.screen.as_json = "--json" in (words[: words.index("--")] if "--" in words else words)
    try:
        return _dispatch(words, context)
    except Trouble as trouble:
        return _tell(trouble, context)
    except ClientError as error:
        from gpunion.cli.connection import trouble_of

        return _tell(trouble_of(error), context)
    except KeyboardInterrupt:
        context.screen.note("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough (`gpunion ps | head`). Python must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except UnicodeEncodeError as error:
        return _tell(_not_text(error), context)
    except Exception as bug:
        if context.environment.get("GPUNION_DEBUG"):
            raise
        return _tell(_bug(bug), context)


def _dispatch(words: list[str], context: Context) -> int:
    early, words = _global_flags_first(words)
    if not words or words[0] in ("-h", "--help", "help"):
        wanted = find(words[1:])
        if words[:1] == ["help"] and wanted is not None:
            build_parser(wanted[0], wanted[0].load()).print_help(context.screen.out)
        else:
            context.screen.line(overview())
        return OK
    if words[0] in ("--version", "-V"):
        from gpunion._version import __version__

        context.screen.line(f"gpunion {__version__}")
        return OK
    found = find(words)
    if found is None:
        raise _unknown_command(words)
    command, rest = found
    return _run(command, [*early, *rest], context)


def _run(command: Command, words: list[str], context: Context) -> int:
    module = command.load()
    after_dashes: list[str] | None = None
    if "--" in words:
        position = words.index("--")
        words, after_dashes = words[:position], words[position + 1 :]
        if not module.takes_command:
            raise Trouble(f"gpunion {command.name} takes nothing after --", code=USAGE)
    arguments = build_parser(command, module).parse_args(words)
    arguments.command = after_dashes
    return module.run(arguments, context)


def build_parser(command: Command, module: CommandModule) -> Parser:
    epilog = (
        "\n".join(["examples:", *(f"  {example}" for example in module.examples)])
        if module.examples
        else None
    )
    # No brackets around the flags: which there are is in the list below it.
    tail = " -- COMMAND ..." if module.takes_command else ""
    parser = Parser(prog=f"gpunion {command.name}", description=_sentence(command.summary), epilog=epilog)
    parser.takes_command = module.takes_command
    parser.commands = [command.name for command in COMMANDS]
    module.configure(parser)
    if module.json_shape is not None:
        parser.add_argument(
            "--json", action="store_true", help="print JSON for programs (docs/cli.md says which)"
        )
    if module.connects:
        parser.add_argument(
            "--url", help="the coordinator's address (GPUNION_URL, or what `gpunion login` kept)"
        )
        parser.add_argument(
            "--token", help="the token to show it (GPUNION_TOKEN, or what `gpunion login` kept)"
        )
    if tail:
        parser.usage = parser.format_usage().removeprefix("usage: ").rstrip() + tail
    return parser


def overview() -> str:
    width = max(len(command.name) for command in COMMANDS)
    lines = ["gpunion: lend idle GPUs across a campus without giving up ownership", ""]
    for group in Group:
        lines.append(group.value)
        lines += [f"  {c.name.ljust(width)}  {c.summary}" for c in COMMANDS if c.group is group]
        lines.append("")
    lines += ["gpunion COMMAND --help says more; --json gives output for programs.", "", "Exit codes:"]
    lines += [f"  {code:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    lines.append("`gpunion run` exits with the job's own code.")
    return "\n".join(lines)


def _global_flags_first(words: list[str]) -> tuple[list[str], list[str]]:
    """`gpunion --json ps` means `gpunion ps --json`."""
    position = 0
    while position < len(words) and words[position].partition("=")[0] in GLOBAL_FLAGS:
        flag, equals, _ = words[position].partition("=")
        position += 1 + (0 if equals else GLOBAL_FLAGS[flag])
    return words[:position], words[position:]


def _unknown_command(words: list[str]) -> Trouble:
    verbs = [command.name for command in COMMANDS if command.name.startswith(f"{words[0]} ")]
    if verbs and len(words) == 1:
        return Trouble(f"gpunion {words[0]} needs a verb: {', '.join(verbs)}", code=USAGE)
    if verbs:
        meant = did_you_mean(" ".join(words[:2]), verbs)
        return Trouble(
            f"gpunion has no command {' '.join(words[:2])!r}{meant}", next_step="gpunion --help", code=USAGE
        )
    if words[0].startswith("-"):
        flag = words[0].partition("=")[0]
        meant = did_you_mean(flag, [*GLOBAL_FLAGS, "--version", "--help"])
        return Trouble(f"gpunion has no flag {flag}{meant}", next_step="gpunion --help", code=USAGE)
    meant = did_you_mean(words[0], [command.name for command in COMMANDS])
    return Trouble(f"gpunion has no command {words[0]!r}{meant}", next_step="gpunion --help", code=USAGE)


def _tell(trouble: Trouble, context: Context) -> int:
    if context.screen.as_json:
        trouble.next_step = context.screen.mend(trouble.next_step)
        context.screen.note_data(trouble.as_json())
    else:
        context.screen.note(trouble.text())
    return trouble.code


def _not_text(error: UnicodeEncodeError) -> Trouble:
    """Only the letters themselves are shown: the rest may be a token."""
    letters = error.object[error.start : error.end]
    # So Python keeps bytes of a word or of a file's name that are no letters where it runs.
    if any("\udc80" <= letter <= "\udcff" for letter in letters):
        return Trouble(
            f"what was typed, or a file's name, has bytes that are not text here: {letters!a}",
            next_step="write it in UTF-8, with LC_ALL=C.UTF-8 where `locale charmap` says otherwise",
            code=USAGE,
        )
    return Trouble(
        f"an address or a token cannot have {letters!a} in it", next_step="gpunion login --help", code=USAGE
    )


def _bug(bug: Exception) -> Trouble:
    """One line, and where the rest is: a traceback helps us, not the person who typed a command."""
    import tempfile
    import traceback

    details = ""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="gpunion-bug-", suffix=".txt", delete=False) as file:
            traceback.print_exception(bug, file=file)
            details = f"the details are in {file.name}; "
    except OSError:
        pass
    return Trouble(
        f"a bug in gpunion: {type(bug).__name__}: {bug}".splitlines()[0],
        next_step=f"{details}GPUNION_DEBUG=1 shows them here; please report it",
        code=ERROR,
    )


def _sentence(summary: str) -> str:
    return summary[0].upper() + summary[1:] + "."
