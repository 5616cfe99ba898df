"""Names inside a guest's directory `<state_dir>/guests/<run_id>/`. Imports nothing: the keeper reads it too.

guest.json is the spec, launch.json how to start it, log.txt its output,
extra-memory.json how much more it may take while it is parked and parked.json what brings it back,
keeper.lock is held by its keeper and keeper.log has what the keeper could not say otherwise. The names that
the owner's commands need without an agent (keeper.json, limits.json, kill.json, exit.json) are in
`gpunion.owner_kill.guest`.
"""

GUEST_FILE = "guest.json"
LAUNCH_FILE = "launch.json"
EXTRA_MEMORY_FILE = "extra-memory.json"
PARKED_FILE = "parked.json"
LOG_FILE = "log.txt"
LOCK_FILE = "keeper.lock"
KEEPER_LOG_FILE = "keeper.log"

CHECKPOINT_DIR, CONTROL_DIR, OUTPUT_DIR, SCRATCH_DIR = "checkpoint", "control", "output", "scratch"
GUEST_DIRS = (CHECKPOINT_DIR, CONTROL_DIR, OUTPUT_DIR, SCRATCH_DIR)  # those it can write to
WORK_DIR, HOME_DIR, TEMPORARY_DIR, SOCKETS_DIR = "work", "home", "tmp", "sockets"  # inside scratch

# One digit each, as a shell's redirections want it.
NOT_BEGUN_FD = 9  # open until the guest's own program runs
GATE_FD = 8  # where a guest that is to have a network waits for its door
SPARE_FD = 10

# What a keeper answers to the runtime that started it.
STARTED, KEPT, REFUSED, FAILED = b"started", b"kept", b"refused", b"failed"
