"""How a container's end reads: from what the engine says and what was wanted, the reason."""

from __future__ import annotations

import signal

# The names of ports.runtime.ExitReason, not imported: the keeper has to start fast.
EXITED, SIGNALLED, OUT_OF_MEMORY = "exited", "signalled", "out_of_memory"
LOST, NOT_STARTED = "lost", "not_started"

KILLED = 128 + signal.SIGKILL
# An engine that goes down ends its containers politely, then not.
SIGNALS_OF_AN_ENGINE = (128 + signal.SIGTERM, KILLED)
WELL = (0, 85)  # finished, or saved and to be run again


class Ending:
    """What is known at the end of a container."""

    __slots__ = ("asked_to_leave", "engine_was_gone", "exit_code", "out_of_memory", "why_ended")

    def __init__(
        self,
        *,
        exit_code: int | None,
        out_of_memory: bool,
        engine_was_gone: bool,
        why_ended: str,
        asked_to_leave: bool = False,
    ) -> None:
        self.exit_code = exit_code  # None: the engine does not know, or is not there to say
        self.out_of_memory = out_of_memory
        self.engine_was_gone = engine_was_gone  # when it was asked
        self.why_ended = why_ended  # the limit that passed or the reason that was noted; "": nobody ended it
        self.asked_to_leave = asked_to_leave  # its keeper was, as by who shuts the machine down


def verdict(ending: Ending) -> tuple[int | None, str]:
    code = ending.exit_code
    if code is None:
        return KILLED, ending.why_ended or LOST
    if code == KILLED and ending.why_ended:
        return code, ending.why_ended
    if code == KILLED and ending.out_of_memory:
        return code, OUT_OF_MEMORY
    if code in SIGNALS_OF_AN_ENGINE and ending.engine_was_gone:
        return code, LOST
    if ending.asked_to_leave and code not in WELL:
        return code, LOST  # whoever shuts the machine down tells both, and the guest may be the quicker
    if 128 < code <= 128 + signal.NSIG:
        return code, SIGNALLED
    return code, EXITED
