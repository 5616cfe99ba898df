"""A machine that serves blocks, and one block."""

from __future__ import annotations

import time
from pathlib import Path

from blake3 import blake3

from gpunion.agent.machine.block_server import desk_for_others
from gpunion.agent.machine.caps import Caps
from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.passes import PeerPass, issue
from gpunion.domain.resources import GIB
from gpunion.vault.files_ready import DirectoryReady
from gpunion.vault.http.server import BlockServer

KEY = "5a" * 32
JOB = JobId("job-1")
DATA = blake3(b"a block").digest(length=3_000_000)  # cannot be packed
NAME = blake3(DATA).hexdigest()


class Alpha:
    """A machine that serves what lies ready on it."""

    def __init__(self, root: Path) -> None:
        self.owner_state = OwnerState.SHARING
        self.ready = DirectoryReady(root / "alpha", limit_bytes=GIB)
        self.desk = desk_for_others(self.ready, Caps(), lambda: self.owner_state)
        self.desk.welcome(JOB, KEY)
        self.server = BlockServer(self.desk, "127.0.0.1", 0)
        self.server.start()

    def pass_for(self, *, key: str = KEY, bearer: str = "beta", age_s: float = 0.0) -> PeerPass:
        return issue(
            key,
            job_id=JOB,
            address=self.server.address,
            node_id=NodeId("alpha"),
            bearer=NodeId(bearer),
            now_s=time.time() - age_s,
        )
