"""The counter for checkpoints of others: when it opens, where, and what the campus and the owner hear."""

from __future__ import annotations

import asyncio
import socket
import threading
from dataclasses import dataclass, field

import pytest

from gpunion.adapters.networks import address_now
from gpunion.agent.machine.block_server import Counter
from gpunion.domain.passes import Keeping
from gpunion.vault.peers import BlockServing
from tests.unit.agent.values import a_station


@dataclass
class Port:
    address: str
    state: str = "bound"

    def start(self) -> None:
        self.state = "open"

    def close(self) -> None:
        self.state = "closed"


@dataclass
class Machine:
    host: str = "10.0.0.7"
    taken: bool = False
    ports: list[Port] = field(default_factory=list)
    greetings: int = 0

    def open_at(self, host: str) -> tuple[BlockServing, Keeping]:
        if self.taken:
            raise OSError("Address already in use")
        self.ports.append(Port(host))
        return self.ports[-1], Keeping(endpoint=f"https://{host}:8476", certificate="PEM")

    def greet(self) -> None:
        self.greetings += 1


def counter_on(machine: Machine) -> Counter:
    return Counter(
        find_host=lambda: machine.host,
        open_at=machine.open_at,
        port=8476,
        station=a_station(),
        greet_again=machine.greet,
    )


def told(counter: Counter) -> str:
    keeping = counter._station.facts.keeping
    return "" if keeping is None else keeping.endpoint


async def test_a_port_that_is_taken_is_opened_when_it_is_free() -> None:
    machine = Machine(taken=True)
    counter = counter_on(machine)
    await counter.look()
    assert (counter.is_open, told(counter), machine.greetings) == (False, "", 0)
    assert counter.trouble == (
        "port 8476 of 10.0.0.7 could not be opened for checkpoints: Address already in use"
    )
    machine.taken = False
    await counter.look()
    assert (counter.is_open, counter.trouble, machine.greetings) == (True, "", 1)
    assert told(counter) == "https://10.0.0.7:8476"


async def test_a_machine_that_starts_before_its_network_opens_when_it_is_there() -> None:
    machine = Machine(host="")
    counter = counter_on(machine)
    await counter.look()
    assert "no way to the coordinator" in counter.trouble
    machine.host = "10.0.0.7"
    await counter.look()
    assert (counter.is_open, counter.trouble) == (True, "")


async def test_another_address_is_told_and_a_lost_network_changes_nothing() -> None:
    machine = Machine()
    counter = counter_on(machine)
    await counter.look()
    for host in ("10.0.0.7", "", "10.0.0.9"):
        machine.host = host
        await counter.look()
    assert [(port.address, port.state) for port in machine.ports] == [
        ("10.0.0.7", "closed"),
        ("10.0.0.9", "open"),
    ]
    assert (told(counter), machine.greetings) == ("https://10.0.0.9:8476", 2)


async def test_a_name_server_that_is_silent_holds_nobody_up() -> None:
    silent, machine = threading.Event(), Machine()
    counter = counter_on(machine)
    counter._find_host = lambda: str(silent.wait() and machine.host)
    running = asyncio.create_task(counter.run())
    await counter.looked(0.01)
    assert not counter.is_open
    silent.set()
    await counter.looked(60.0)
    assert counter.is_open
    running.cancel()


def test_a_name_that_nobody_knows_leads_nowhere() -> None:
    assert address_now("http://127.0.0.1:1") == "127.0.0.1"
    assert address_now("http://no-such-host.invalid:1") == ""


def test_an_address_that_leads_nowhere_is_passed_over_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = socket.SOCK_DGRAM
    found = [
        (socket.AF_INET, kind, 0, "", ("255.255.255.255", 1)),  # not without a permission
        (socket.AF_INET, kind, 0, "", ("127.0.0.1", 1)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert address_now("http://campus.example:1") == "127.0.0.1"
