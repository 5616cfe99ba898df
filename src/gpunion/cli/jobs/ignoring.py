"""What stays out of a bundle: patterns as in a .gitignore, from .gpunionignore and from what nobody wants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

IGNORE_FILE = ".gpunionignore"


class Why(StrEnum):
    """Why something is left out; the values are those of --json."""

    USELESS = "useless"
    ASKED = "asked"  # by the ignore file, or as the folder for outputs
    ENVIRONMENT = "virtual_environment"
    SECRET = "secret"


# Never a job's code, often larger than the rest together. `!name` in .gpunionignore brings one back.
ALWAYS = (
    ".git/", ".hg/", ".svn/", "__pycache__/", "*.pyc", "node_modules/", ".mypy_cache/",
    ".pytest_cache/", ".ruff_cache/", ".ipynb_checkpoints/", ".DS_Store",
)  # fmt: skip
# Of this machine's Python, and of no use under another one. Others are known by the file that makes them one.
ENVIRONMENTS = (".venv/", "venv/")
ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
# A job runs on somebody else's machine: what opens other doors goes there only if it was named.
SECRETS = (
    ".ssh/", ".gnupg/", ".aws/", ".azure/", ".kube/", ".kaggle/", "**/.config/gcloud/", "**/.config/gpunion/",
    "**/.docker/config.json", "**/.huggingface/token", ".env", ".env.*", "!.env.example", "!.env.sample",
    "!.env.template", ".envrc", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_*_sk", "*.pem", "*.key",
    "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.kdbx", ".netrc", "_netrc", ".pgpass", ".my.cnf",
    ".pypirc", ".npmrc", ".git-credentials", ".htpasswd", ".vault-token", ".s3cfg", ".boto", "kaggle.json",
    "credentials", "credentials.json", "credentials.toml", "credentials.yaml", "credentials.yml",
    "client_secret*.json", "service-account*.json", "service_account*.json",
    "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml",
)  # fmt: skip
# A folder of this name is one big secret, wherever it is sent from.
SECRET_FOLDERS = tuple(name.rstrip("/") for name in SECRETS if name.endswith("/") and "*" not in name)


@dataclass(frozen=True, slots=True)
class Rule:
    pattern: re.Pattern[str]
    keeps: bool
    directories_only: bool
    why: Why


class Ignoring:
    """The last rule that matches decides, as in git. `folder` is one more, of the bundle's root; `included`
    are the patterns of --include, which bring back a file, or a folder with all that is in it."""

    def __init__(self, text: str = "", folder: str = "", included: Sequence[str] = ()) -> None:
        lines = [
            *((name, Why.USELESS) for name in ALWAYS),
            *((name, Why.ENVIRONMENT) for name in ENVIRONMENTS),
            *((name, Why.SECRET) for name in SECRETS),
        ]
        rules = [_rule(line, why) for line, why in lines]
        if folder:
            exactly = re.compile(re.escape(folder))
            rules.append(Rule(pattern=exactly, keeps=False, directories_only=True, why=Why.ASKED))
        rules += [_rule(line, Why.ASKED) for line in text.splitlines()]
        named = [name.removeprefix("./").rstrip("/") for name in included]
        rules += [_rule(f"!{line}", Why.ASKED) for name in named for line in (name, f"{_deep(name)}/**")]
        self._rules = [rule for rule in rules if rule is not None]

    def left_out(self, path: str, *, is_directory: bool, is_environment: bool = False) -> Why | None:
        """`path` is relative to the bundle's root, with forward slashes. None: it travels."""
        for rule in reversed(self._rules):
            if rule.directories_only and not is_directory:
                continue
            if rule.pattern.fullmatch(path):
                return None if rule.keeps else rule.why
        return Why.ENVIRONMENT if is_environment else None


def _deep(name: str) -> str:
    """So that what is in a folder is found as deep as the folder itself would be."""
    return name if "/" in name else f"**/{name}"


def _rule(line: str, why: Why) -> Rule | None:
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
    return Rule(pattern=re.compile(regex, re.DOTALL), keeps=keeps, directories_only=directories_only, why=why)


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
