"""What terms mean for a guest's hands: the cap of the network, and the words in its notice."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

from gpunion.agent.checkpoints.shipping import Cancelled
from gpunion.agent.machine.caps import Caps, both
from gpunion.agent.program.save_request import tell_notice
from gpunion.agent.terms.file import changed
from gpunion.domain.nodes.terms import OwnersTerms
from tests.unit.agent.fakes import FakeWorld
from tests.unit.agent.values import RUN, an_order


def test_the_network_cap_holds_for_all_shipments_together() -> None:
    caps, cancelled = Caps(), Cancelled()
    caps.take(changed(OwnersTerms(), {"caps.network": "8Mbit"}))  # a megabyte a second
    began_s = time.monotonic()
    paces = [both(lambda _: None, caps, cancelled) for _ in range(2)]
    threads = [threading.Thread(target=pace, args=(100_000,)) for pace in paces]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - began_s >= 0.19
    cancelled.ask()
    both(lambda _: None, caps, cancelled)(10**9)  # returns at once
    caps.take(OwnersTerms())
    both(lambda _: None, caps, Cancelled())(10**12)


def test_the_guest_reads_the_reason_in_its_notice(tmp_path: Path) -> None:
    fake = FakeWorld(tmp_path)
    asyncio.run(fake.runtime.prepare_paths(RUN))
    fake.run_notes.write(an_order(), fake.runtime.paths(RUN))
    note = fake.run_notes.get(RUN)
    assert note is not None
    tell_notice(fake.world, note, 1060.0, "it is lent until Fri 21:00")
    notice = fake.world.control.read_json(note.paths.control_dir, "notice.json")
    assert notice is not None
    assert notice["reason"] == "it is lent until Fri 21:00"
