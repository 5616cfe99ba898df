"""A pass to another machine's blocks: which one may be asked, for which job, by whom and until when.

The machine that serves them holds a secret of the run it has or had, so it can tell a good pass from a
made-up one without asking anybody. The pass tells nothing about the secret, and its bearer proves to have it
without showing it.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

from gpunion.domain.ids import JobId, NodeId

# Long enough to fetch a large state at a tenth of a gigabit, short enough to be of no use tomorrow.
PASS_VALID_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPass:
    address: str  # host:port
    node_id: NodeId  # whose blocks
    bearer: NodeId
    until_s: float  # Unix time
    token: str = field(repr=False)


def key_of_run(peer_key: str, epoch: int) -> str:
    """A run's own secret, in hex. Who ran a job once can make no passes to its later runs."""
    return _mac(bytes.fromhex(peer_key), f"run {epoch}") if peer_key else ""


def issue(
    run_key: str, *, job_id: JobId, address: str, node_id: NodeId, bearer: NodeId, now_s: float
) -> PeerPass:
    until_s = float(int(now_s + PASS_VALID_S))
    token = token_of(run_key, job_id, bearer, until_s)
    return PeerPass(address=address, node_id=node_id, bearer=bearer, until_s=until_s, token=token)


def token_of(run_key: str, job_id: str, bearer: str, until_s: float) -> str:
    return _mac(bytes.fromhex(run_key), f"pass {job_id} {bearer} {until_s:.0f}")


def proof_of(token: str, nonce: str) -> str:
    """What the bearer shows for the question it was asked."""
    return _mac(bytes.fromhex(token), f"proof {nonce}")


def _mac(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), "sha256").hexdigest()
