"""Builders with defaults, so that a test says only what it is about.

Values (`a_job(gpus=2)`, `a_node()`, `facts()`), the two engines alone with words typed in (`Headquarters`,
`LoneAgent`), and both as stations on one manual clock with frames carried by hand (`a_campus()`).
"""

from __future__ import annotations

from tests.builders.campus import Campus, a_campus, at_once
from tests.builders.headquarters import Headquarters, a_running_job
from tests.builders.lone_agent import LoneAgent, an_agent_with_a_guest
from tests.builders.machines import Machine
from tests.builders.processes import Process, Vault
from tests.builders.values import (
    GIGABIT_BPS,
    TIMING,
    a_grant,
    a_guest,
    a_job,
    a_node,
    a_run,
    a_save_order,
    a_spec,
    a_start,
    a_stop,
    a_view,
    a_welcome,
    deeds,
    ends,
    facts,
    not_saved,
    orders,
    reports,
    some_gpus,
    the_end,
    timers_of,
    whys,
)

__all__ = [
    "GIGABIT_BPS",
    "TIMING",
    "a_grant",
    "a_guest",
    "a_job",
    "a_node",
    "a_run",
    "a_save_order",
    "a_spec",
    "a_start",
    "a_stop",
    "a_view",
    "a_welcome",
    "deeds",
    "ends",
    "facts",
    "not_saved",
    "orders",
    "reports",
    "some_gpus",
    "the_end",
    "timers_of",
    "whys",
    "Headquarters",
    "LoneAgent",
    "a_running_job",
    "an_agent_with_a_guest",
    "Campus",
    "Machine",
    "Process",
    "Vault",
    "a_campus",
    "at_once",
]
