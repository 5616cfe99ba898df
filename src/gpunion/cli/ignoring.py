"""What stays out of a bundle: patterns as in a .gitignore, from .gpunionignore and from what nobody wants."""

from __future__ import annotations

import re
from dataclasses import dataclass

IGNORE_FILE = ".gpunionignore"
# Never a job's code, often larger than the rest together. `!name` in .gpunionignore brings one back.
ALWAYS = (
    ".git/", ".hg/", ".svn/", "__pycache__/", "*.pyc", ".venv/", "venv/", "node_modules/", ".mypy_cache/",
    ".pytest_cache/", ".ruff_cache/", ".ipynb_checkpoints/", ".DS_Store",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    pattern: re.Pattern[str]
    keeps: bool
    directories_only: bool


class Ignoring:
    """The last rule that matches decides, as in git. `folder` is one more, of the bundle's root."""

    def __init__(self, text: str = "", folder: str = "") -> None:
        own = Rule(pattern=re.compile(re.escape(folder)), keeps=False, directories_only=True)
        said = [_rule(line) for line in (*ALWAYS, *text.splitlines())]
        found = [*said[: len(ALWAYS)], own if folder else None, *said[len(ALWAYS) :]]
        self._rules = [rule for rule in found if rule is not None]

    def ignores(self, path: str, *, is_directory: bool) -> bool:
        """`path` is relative to the bundle's root, with forward slashes."""
        for rule in reversed(self._rules):
            if rule.directories_only and not is_directory:
                continue
            if rule.pattern.fullmatch(path):
                return not rule.keeps
        return False


def _rule(line: str) -> Rule | None:
    text = line.rstrip()
    if not text or text.startswith("#"):
        return None
    keeps = text.startswith("!")
    text = text.removeprefix("!").removeprefix("\\")
    directories_only = text.endswith("/")
    text = text.rstrip("/")
    if not text:
        return None
    anchored = "/" in text
    regex = ("" if anchored else "(?:.*/)?") + _regex(text.removeprefix("/"))
    return Rule(pattern=re.compile(regex, re.DOTALL), keeps=keeps, directories_only=directories_only)


def _regex(glob: str) -> str:
    parts: list[str] = []
    position = 0
    while position < len(glob):
        rest = glob[position:]
        if rest.startswith("**/"):
            parts.append("(?:.*/)?")
            position += 3
        elif rest.startswith("**"):
            parts.append(".*")
            position += 2
        elif rest[0] == "*":
            parts.append("[^/]*")
            position += 1
        elif rest[0] == "?":
            parts.append("[^/]")
            position += 1
        elif rest[0] == "[" and "]" in rest[2:]:
            end = rest.index("]", 2)
            negated = rest[1] in "!^"
            letters = re.sub(r"([\\\[\]&~|^])", r"\\\1", rest[2 if negated else 1 : end])
            parts.append(f"[^/{letters}]" if negated else f"[{letters}]")
            position += end + 1
        else:
            parts.append(re.escape(rest[0]))
            position += 1
    return "".join(parts)
