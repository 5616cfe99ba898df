"""A machine that serves blocks, and one block."""

from __future__ import annotations

import time
from pathlib import Path

from blake3 import blake3

from gpunion.adapters.files.ready import DirectoryReady
from gpunion.adapters.peers.server import BlockServer
from gpunion.agent.caps import Caps
from gpunion.agent.peering import PeerDesk
from gpunion.domain.guest import Tenure
from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.peer import PeerPass, issue
from gpunion.domain.resources import GIB

KEY = "5a" * 32
JOB = JobId("job-1")
DATA = blake3(b"a block").digest(length=3_000_000)  # cannot be packed
NAME = blake3(DATA).hexdigest()


class Alpha:
    """A machine that serves what lies ready on it."""

    def __init__(self, root: Path) -> None:
        self.tenure = Tenure.SHARING
        self.ready = DirectoryReady(root / "alpha", limit_bytes=GIB)
        self.desk = PeerDesk(self.ready, Caps(), lambda: self.tenure)
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
