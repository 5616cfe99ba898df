"""The names of what the parts of an agent make in its state directory."""

from __future__ import annotations

from gpunion.adapters.runtimes.keeper.proxy_socket import LIST_FILE
from gpunion.adapters.runtimes.podman.probing import PROBE_DIR
from gpunion.adapters.runtimes.podman.seccomp import PROFILE_NAME

AGENT_DIR = "agent"
CACHE_DIR = "cache"
IMAGES_DIR = "images"
PLACES_FILE = "places.json"  # in AGENT_DIR: what the coordinator has told of places for checkpoints
PROBE_HOME = PROBE_DIR  # where an agent that tries whether it can dump guests keeps a small one
RUNTIME_FILES = (LIST_FILE, PROFILE_NAME)  # the doorman's list of places and Podman's profile
