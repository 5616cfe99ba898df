"""What is said to the coordinator where no agent runs: before its first start, and after its last."""

from __future__ import annotations

import asyncio

from gpunion.adapters.http.requests import HttpRegistrar
from gpunion.agent.link.joining import Joined, JoinRequest, JoinTrouble
from gpunion.agent.link.joining import join as enrol_join
from gpunion.ports.coordinator_link import LinkFault
from gpunion.vault.mark import shares


def join(request: JoinRequest) -> Joined:
    """What `gpunion join` calls. JoinTrouble says why not."""
    try:
        return asyncio.run(enrol_join(request, HttpRegistrar(request.url.rstrip("/")), shares))
    except LinkFault as fault:
        raise JoinTrouble(str(fault)) from fault


def say_goodbye(coordinator: str, credential: str) -> bool:
    """For an agent that cannot any more; whether the coordinator heard it."""
    try:
        asyncio.run(HttpRegistrar(coordinator).farewell(credential))
    except LinkFault:
        return False
    return True
