"""argparse, with mistakes answered by what was probably meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from gpunion.cli.exits import USAGE, Trouble
from gpunion.cli.output.screen import screen_width

CLOSE_ENOUGH = 0.6
NEGATIVE = re.compile(r"-\.?\d")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """argparse makes one for every flag, and would load half a library to learn how wide the screen is."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=screen_width() - 2)


class Parser(argparse.ArgumentParser):
    """One command's parser. It raises Trouble where argparse would print and exit."""

    takes_command = False  # whether a command to run may follow after --
    commands: Sequence[str] = ()  # all there are: one of them in a wrong place is told from nonsense

    def __init__(self, **details: Any) -> None:
        super().__init__(
            allow_abbrev=False,  # a flag added later must not change what an old script means
            formatter_class=_Formatter,
            **details,
        )

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        known, unknown = self.parse_known_args(None if args is None else self._joined(args), namespace)
        if unknown:
            # The first of several words was taken for the job file.
            taken = getattr(known, "file", None) if self.takes_command else None
            word = unknown[0] if taken is None or unknown[0].startswith("-") else str(taken)
            raise self._unknown(word)
        return known

    def _joined(self, words: Sequence[str]) -> list[str]:
        """With '--notice -5s' as '--notice=-5s': argparse would take it for a flag, and not say what is wrong
        with it."""
        valued = {
            flag
            for action in self._actions
            if action.nargs is None and not isinstance(action, argparse._SubParsersAction)
            for flag in action.option_strings
        }
        joined: list[str] = []
        for number, word in enumerate(words):
            if word == "--":
                return [*joined, *words[number:]]
            if joined and joined[-1] in valued and NEGATIVE.match(word):
                joined[-1] += f"={word}"
            else:
                joined.append(word)
        return joined

    def error(self, message: str) -> NoReturn:
        message = message.replace("expected one argument", "a value is missing after it")
        raise Trouble(f"{self.prog}: {message}", next_step=f"{self.prog} --help", code=USAGE)

    def _unknown(self, word: str) -> Trouble:
        flag = word.partition("=")[0]
        known = [name for action in self._actions for name in action.option_strings]
        if not flag.startswith("-"):
            after_dashes = f"write the command after --, like: {self.prog} -- {word} ..."
            next_step = after_dashes if self.takes_command else f"{self.prog} --help"
            if not self.takes_command and word in self.commands:
                next_step = f"gpunion {word} --help"  # it is a command of its own
            return Trouble(
                f"{self.prog} does not know what to do with {word!r}", next_step=next_step, code=USAGE
            )
        meant = did_you_mean(flag, known)
        return Trouble(f"{self.prog} has no flag {flag}{meant}", next_step=f"{self.prog} --help", code=USAGE)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """'; did you mean ...?' or nothing."""
    import difflib

    # Dashes are common to all flags, and would make any two of them alike.
    bare = {name.lstrip("-"): name for name in known}
    near = difflib.get_close_matches(word.lstrip("-"), list(bare), n=1, cutoff=CLOSE_ENOUGH)
    return f"; did you mean {bare[near[0]]}?" if near else ""
