"""Which outside services this machine has, each found by trying it and not by looking for its name alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

# A service that takes longer to answer is as good as absent. A busy machine is no absence.
PROBE_LIMIT_S = 60.0
# For requests of tests themselves: a library's own few seconds may pass while a busy machine loads a server.
ANSWER_LIMIT_S = 60.0

CHECKOUT = Path(__file__).resolve().parents[1]
# A user without a name, a home, a group or any right; next to those that guests get, and nobody's.
ORDINARY_USER = 60_705
PLAIN_PYTHON = "/usr/bin/python3"  # the one of the tests may be out of that user's reach


def as_ordinary_user(*command: str) -> list[str]:
    user = str(ORDINARY_USER)
    return ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", *command]


# It makes namespaces, and reads this checkout with a Python that is new enough.
ROOTLESS = as_ordinary_user(
    *("unshare", "--user", "--map-root-user", "--pid", "--fork", PLAIN_PYTHON, "-c"),
    f"import sys; sys.path.insert(0, {str(CHECKOUT / 'src')!r}); import gpunion; from datetime import UTC",
)

PROBES: dict[str, list[str]] = {
    "bwrap": ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"],
    "docker": ["docker", "version"],
    "podman": ["podman", "ps"],
    "rootless": ROOTLESS,
    "postgres": ["pg_config", "--version"],
    # One without the other would leave tests of rules and pages out although the service is said to be there.
    "prometheus": ["sh", "-c", "prometheus --version && promtool --version"],
    "tc": ["tc", "qdisc", "show", "dev", "lo"],
    "netns": ["unshare", "--net", "ip", "link", "show"],
    "criu": ["criu", "check"],
    "tmpfs": ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"],
    "chromium": ["chromium", "--version"],
    "cloudpickle": [sys.executable, "-c", "import cloudpickle"],
    "jupyterlab": [sys.executable, "-c", "import jupyterlab, ipykernel, cloudpickle"],
    "playwright": [sys.executable, "-c", "import playwright.sync_api"],
    "sshd": ["sshd", "-V"],
    "torch": [sys.executable, "-c", "import torch"],
    "nvidia": ["nvidia-smi", "--list-gpus"],
    "s3": [sys.executable, "-c", "import obstore, flask, moto"],
}
KNOWN_SERVICES = frozenset(PROBES)
# Their tests look at the processes and cgroups of guests from outside, whoever those belong to, or mount
# something.
ROOT_SERVICES = frozenset({"docker", "podman", "rootless", "criu", "tmpfs"})

SYSTEM_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


@cache
def why_absent(service: str) -> str | None:
    """Why the service cannot be used here, or None when it can."""
    command = PROBES[service]
    if service in ROOT_SERVICES and os.geteuid() != 0:
        return "its tests are for root"
    found = shutil.which(command[0], path=SYSTEM_PATH)
    if found is None:
        return f"no command '{command[0]}'"
    try:
        answer = subprocess.run(
            [found, *command[1:]],
            capture_output=True,
            text=True,
            timeout=PROBE_LIMIT_S,
            env={**os.environ, "PATH": SYSTEM_PATH},
        )
    except (OSError, subprocess.TimeoutExpired) as trouble:
        return f"'{' '.join(command)}' did not run: {trouble}"
    if answer.returncode != 0:
        return f"'{' '.join(command)}' failed: {answer.stderr.strip()[-200:]}"
    return None
