"""The names of all that an agent and its runtimes make in the state directory, and what leaving removes."""

from __future__ import annotations

import os

from gpunion.agent.compose.folders import AGENT_DIR, CACHE_DIR, IMAGES_DIR, PROBE_HOME, RUNTIME_FILES
from gpunion.agent.owner_client import SOCKET_NAME
from gpunion.agent.settings import CREDENTIAL_FILE, SETTINGS_FILE
from gpunion.agent.terms_file import TERMS_FILE
from gpunion.agent.unsent import UNSENT_DIR
from gpunion.agent.world import SPOOL_DIR
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
