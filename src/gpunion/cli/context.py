"""What a command is given besides its arguments, so that a test can give it something else."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpunion.cli.campus import Campus
from gpunion.cli.output.screen import Screen


def _connect(context: Context, arguments: Namespace) -> Campus:
    from gpunion.cli.connection import connect

    def tell(words: str) -> None:
        if not context.screen.as_json:  # programs are told what went wrong, and nothing has yet
            context.screen.note(f"{words[:1].upper()}{words[1:]} ...")

    return connect(context.environment, arguments, tell)


@dataclass(slots=True, kw_only=True)
class Context:
    screen: Screen = field(default_factory=Screen)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    here: Path = field(default_factory=Path.cwd)
    pause: Callable[[float], None] = time.sleep
    open_campus: Callable[[Context, Namespace], Campus] = _connect

    def campus(self, arguments: Namespace) -> Campus:
        return self.open_campus(self, arguments)
