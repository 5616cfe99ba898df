"""What this user's own ssh needs to enter a session: a key of its own, and a few lines of settings."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from gpunion.cli.config import config_path
from gpunion.cli.exits import UNAVAILABLE, Trouble

HOST_PREFIX = "gpunion-"
USER = "guest"
KEYGEN_LIMIT_S = 30.0
# Which machine a session is on is settled by the coordinator, with the user's token, and it moves.
NO_KNOWN_HOSTS = (
    ("StrictHostKeyChecking", "no"),
    ("UserKnownHostsFile", "/dev/null"),
    ("GlobalKnownHostsFile", "/dev/null"),
    ("LogLevel", "ERROR"),
)


def folder(environment: Mapping[str, str]) -> Path:
    return config_path(environment).with_name("ssh")


def public_keys(environment: Mapping[str, str]) -> list[str]:
    """Made when first asked for; none where this machine has no ssh."""
    key = folder(environment) / "id_ed25519"
    public = key.with_suffix(".pub")
    if not public.exists():
        if shutil.which("ssh-keygen") is None:
            return []
        key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpunion", "-f", str(key)]
        made = subprocess.run(words, capture_output=True, text=True, timeout=KEYGEN_LIMIT_S, check=False)
        if made.returncode != 0:
            raise Trouble(f"no key for ssh could be made in {key.parent}", why=made.stderr.strip())
    return [public.read_text(encoding="ascii").strip()]


def proxy_command(url: str, name: str) -> str:
    """The token is not in it: a list of processes shows every word."""
    return shlex.join([sys.executable, "-m", "gpunion", "ssh", "--url", url, "--stdio"]) + f" {name}"


def command(environment: Mapping[str, str], url: str, name: str, words: list[str]) -> list[str]:
    program = shutil.which("ssh")
    if program is None:
        raise Trouble(
            "there is no ssh on this machine",
            next_step=f"install it (openssh-client), or: gpunion attach {name}",
            code=UNAVAILABLE,
        )
    options = [("ProxyCommand", proxy_command(url, name)), *_settings(environment)]
    asked = [word for key, value in options for word in ("-o", f"{key}={value}")]
    return [program, *asked, f"{USER}@{HOST_PREFIX}{name}", *words]


def write_config(environment: Mapping[str, str], url: str, home: Path) -> tuple[Path, bool]:
    """For `ssh gpunion-NAME`, scp, rsync and editors. Whether ~/.ssh/config had to be told of it."""
    place = folder(environment) / "config"
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = [f"Host {HOST_PREFIX}*", f"  User {USER}", f"  ProxyCommand {proxy_command(url, '%n')}"]
    lines += [f"  {key} {value}" for key, value in _settings(environment)]
    place.write_text("\n".join(["# Written by gpunion ssh --config", *lines, ""]), encoding="utf-8")
    include, main = f"Include {place}", home / ".ssh" / "config"
    known = main.read_text(encoding="utf-8") if main.exists() else ""
    if include in known.splitlines():
        return place, False
    main.parent.mkdir(mode=0o700, exist_ok=True)
    # In front: an Include inside a Host section would hold for that host alone.
    main.write_text(f"{include}\n{known}", encoding="utf-8")
    main.chmod(0o600)
    return place, True


def _settings(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    identity = str(folder(environment) / "id_ed25519")
    return [("IdentityFile", identity), ("IdentitiesOnly", "yes"), *NO_KNOWN_HOSTS]
