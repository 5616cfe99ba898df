"""The process that reads a calendar, as the agent sees it: asked, waited for, ended when it takes too long.

The libraries are good at calendars and know no limits: a daily series since 1900 costs a fifth of a second,
one that never takes place five, and a file may have thousands of either. So no calendar is worked out in the
agent, and one that takes longer than the limit is refused.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from gpunion.policy.terms.busy import Appointment
from gpunion.ports.calendar import CalendarTrouble

CHILD = (sys.executable, "-m", "gpunion.adapters.calendar.child")
# Of processor time, so that a busy machine refuses no calendar that an idle one takes.
WORK_LIMIT_S = 15
# On a machine that is busy beyond that, nobody waits for ever either.
WAIT_FACTOR = 4


class CalendarReader:
    def __init__(self, work_limit_s: int = WORK_LIMIT_S) -> None:
        self._limit_s = work_limit_s

    def appointments(self, text: str, since_s: float, until_s: float) -> tuple[Appointment, ...]:
        try:
            done = subprocess.run(
                (*CHILD, repr(since_s), repr(until_s), str(self._limit_s)),
                input=text.encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=self._limit_s * WAIT_FACTOR,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CalendarTrouble(
                f"it could not be worked out within {self._limit_s * WAIT_FACTOR} s; this machine may be busy"
            ) from None
        except OSError as error:
            raise CalendarTrouble(f"no process could be started to read it: {error.strerror}") from error
        if done.returncode == -signal.SIGXCPU:
            raise CalendarTrouble(f"working it out takes more than {self._limit_s} s of processor time")
        return _understood(done.stdout)


def _understood(answer: bytes) -> tuple[Appointment, ...]:
    try:
        said = json.loads(answer)
    except ValueError:
        raise CalendarTrouble("the process that reads it died; it may need too much memory") from None
    if "trouble" in said:
        raise CalendarTrouble(said["trouble"])
    return tuple(
        Appointment(begin_s=begin, end_s=end, floating=floating) for begin, end, floating in said["times"]
    )
