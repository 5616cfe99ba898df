"""The names of all that an agent and its runtimes make in the state directory, and what leaving removes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gpunion.agent.checkpoints.unsent_outputs import UNSENT_DIR
from gpunion.agent.compose.runtime_files import AGENT_DIR, CACHE_DIR, IMAGES_DIR, PROBE_HOME, RUNTIME_FILES
from gpunion.agent.dependencies import SPOOL_DIR
from gpunion.agent.owner.client import SOCKET_NAME
from gpunion.agent.settings import CREDENTIAL_FILE, SETTINGS_FILE
from gpunion.agent.terms.file import TERMS_FILE
from gpunion.owner_kill import OWNER_KILL_FILE
from gpunion.owner_kill.guest import GUESTS_DIR

LOCK_FILE = "agent.lock"
FAREWELL_FILE = "farewell.json"  # from an agent that left to `gpunion leave --purge`, which waits for it
_OWNER_DIR = os.path.dirname(OWNER_KILL_FILE)

# What goes with the agent itself: settings, credential, memory. The terms too, or the next join would find
# some that nobody gave it.
OF_THE_AGENT = frozenset({
    AGENT_DIR, CACHE_DIR, SPOOL_DIR, UNSENT_DIR, _OWNER_DIR, GUESTS_DIR, PROBE_HOME,
    SETTINGS_FILE, CREDENTIAL_FILE, TERMS_FILE, *RUNTIME_FILES,
})  # fmt: skip
# And what it needs until it is gone. The book of images is kept with those that could not be removed.
# Anything else in the directory is not ours to remove.
OURS = OF_THE_AGENT | {IMAGES_DIR, LOCK_FILE, SOCKET_NAME, FAREWELL_FILE}


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
