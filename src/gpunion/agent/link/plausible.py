"""What this machine says of itself, brought to where it can be believed.

A driver may report any number and any name. The coordinator would refuse such a greeting, and the machine
would lend nothing until somebody found out why; so it says what is nearest instead, and its log says of what.
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from gpunion.domain.nodes.node import NodeFacts
from gpunion.limits import OutOfRange
from gpunion.wire.bounds import CHECK, TELL

log = structlog.get_logger()


def plausible(facts: NodeFacts) -> NodeFacts:
    try:
        CHECK[NodeFacts](facts)
    except OutOfRange as strange:
        told: NodeFacts = TELL[NodeFacts](facts)
        log.error(
            "facts_out_of_range",
            trouble=f"this machine was found to have what cannot be: {strange}",
            next_step="the nearest that can be is told; write what is right into the settings",
        )
        return replace(told, terms=facts.terms)  # by their owner's own words, whatever is told of them
    return facts
