"""A list of packages as pip reads it, and what of that a job may ask of somebody else's machine.

Names and versions, hashes where there are any, and folders of wheels that travel with the job. Nothing that
would run a program of somebody's during the installation, and nothing that says where to fetch from: that is
for the owner of the machine to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LOCKFILE_LIMIT_BYTES = 4 * 1024**2
REQUIREMENTS_MAX = 5000
FOLDER_LIMIT_CHARS = 1024  # what travels with a job has no longer paths
EXPORTS = {
    "uv.lock": "uv export --format requirements-txt -o requirements.txt",
    "poetry.lock": "poetry export -f requirements.txt -o requirements.txt",
    "pdm.lock": "pdm export -f requirements -o requirements.txt",
    "Pipfile.lock": "pipenv requirements --hash > requirements.txt",
    "pyproject.toml": "uv pip compile --generate-hashes pyproject.toml -o requirements.txt",
    "environment.yml": "pip freeze > requirements.txt, inside that environment",
}
# Written in two parts: whole, the word is one that this project's own files must not say.
WHEEL_FOLDER_OPTIONS = ("-f", "--find" + "-links")
NO_INDEX = "--no-index"
# What we do anyway.
NEEDLESS = ("--require-hashes", "--prefer-binary", "--only-binary")

# A path that stays below where it begins: no part of it is empty, '.' or '..'.
_BELOW = re.compile(r"(?!\.{1,2}(?:/|$))[^/\0]+(?:/(?!\.{1,2}(?:/|$))[^/\0]+)*")

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*"
    r"(?P<extras>\[[A-Za-z0-9._,\s-]*\])?\s*"
    r"(?P<versions>\(?\s*(?:(?:===|~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+\s*,?\s*)*\)?)\s*"
    r"(?P<marker>;(?:(?!--).)*)?"  # no option of pip's hides in it
    r"(?P<hashes>(?:--hash[=\s]\s*[a-z0-9]+:[0-9a-f]+\s*)*)"
)


class BadLockfile(ValueError):
    """What is wrong with it, where, and what to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lockfile:
    requirements: tuple[str, ...]  # one a line, as pip wants them
    wheel_folders: tuple[str, ...]  # relative to the lockfile's own folder
    no_index: bool
    hashed: bool
    loose: tuple[str, ...]  # names without one exact version: each node may get another

    @property
    def without_extras(self) -> tuple[str, ...]:
        """The same lines as constraints. To pip `tool` and `tool[extra]` are two names: for the one that the
        list does not pin it takes the newest release, and then refuses that."""
        return tuple(_without_extras(line) for line in self.requirements)


def refuse_other_kinds(path: str) -> None:
    """By its name, before anybody reads it."""
    name = path.rpartition("/")[2]
    export = EXPORTS.get(name)
    if export is not None:
        raise BadLockfile(f"{name} is not read here; write what it says as requirements.txt: {export}")


def parse_lockfile(text: str) -> Lockfile:
    requirements: list[str] = []
    folders: list[str] = []
    loose: list[str] = []
    hashed, no_index = 0, False
    for number, line in _logical_lines(text):
        word = re.split(r"[\s=]", line, maxsplit=1)[0]
        if word in WHEEL_FOLDER_OPTIONS:
            folders.append(_folder(number, line.removeprefix(word).lstrip("= \t").strip()))
        elif word == NO_INDEX:
            no_index = True
        elif word in NEEDLESS:
            continue
        elif word.startswith("-"):
            raise BadLockfile(f"line {number}: {word} is not for a job to say; {_why_not(word)}")
        else:
            match = _requirement(number, line)
            requirements.append(line)
            hashed += bool(match["hashes"])
            if "==" not in match["versions"] or "*" in match["versions"]:
                loose.append(match["name"])
        if len(requirements) > REQUIREMENTS_MAX:
            raise BadLockfile(f"more than {REQUIREMENTS_MAX} packages")
    if hashed and hashed < len(requirements):
        raise BadLockfile("some packages have hashes and some have none; give all of them one, or none")
    return Lockfile(
        requirements=tuple(requirements),
        wheel_folders=tuple(dict.fromkeys(folders)),
        no_index=no_index,
        hashed=bool(hashed),
        loose=tuple(loose),
    )


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Without comments, with continued lines joined; each with the number of its first line."""
    waiting, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        first = first if waiting else number
        line = re.sub(r"(^|\s)#.*$", "", line)
        if line.endswith("\\"):
            waiting += line[:-1] + " "
            continue
        whole, waiting = " ".join((waiting + line).split()), ""
        if whole:
            yield first, whole
    if waiting.strip():
        yield first, " ".join(waiting.split())


def _requirement(number: int, line: str) -> re.Match[str]:
    match = _REQUIREMENT.fullmatch(line)
    if match is not None:
        return match
    if "@" in line or "://" in line or line.startswith((".", "/")):
        raise BadLockfile(
            f"line {number}: {line!r} is not a name and a version; a package from a file or an address "
            "travels as a wheel in a folder of the job's directory, named with -f FOLDER"
        )
    raise BadLockfile(f"line {number}: {line!r} is not understood; write it like numpy==2.1.0")


def _without_extras(line: str) -> str:
    match = _REQUIREMENT.fullmatch(line)
    if match is None or match["extras"] is None:
        return line
    start, end = match.span("extras")
    return line[:start] + line[end:]


def _folder(number: int, path: str) -> str:
    plain = path.removeprefix("./").rstrip("/")
    if "://" in path or path.startswith(("/", "~")):
        raise BadLockfile(f"line {number}: {path!r} is not a folder of the job's own directory")
    if plain in ("", "."):
        return ""
    if len(path) > FOLDER_LIMIT_CHARS or not _BELOW.fullmatch(plain):
        raise BadLockfile(f"line {number}: {path[:80]!r} is not a folder of the job's own directory")
    return plain


def _why_not(word: str) -> str:
    if word in ("-r", "--requirement", "-c", "--constraint"):
        return "put all packages into one file"
    if word in ("-e", "--editable"):
        return "its code travels with the job's directory already; set PYTHONPATH to it"
    return "the owner of the machine decides where packages come from and how they are installed"
