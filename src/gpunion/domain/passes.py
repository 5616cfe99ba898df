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


def _mac(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), "sha256").hexdigest()


DAY_S = 86_400.0
# Clocks of two machines may differ by this much before an admission counts as over.
SKEW_S = 300.0
OVER = (
    "its admission is over. Next: let it reach the coordinator, which gives another; or set the clocks, "
    "if those of the two machines differ by a day"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """As the machine says of itself."""

    endpoint: str  # https://HOST:PORT
    certificate: str  # who answers there has made this one for itself; nobody else vouches for it


def key_of_place(secret: str, place: str, node_id: str) -> str:
    """In hex. A place that another machine keeps has another one."""
    return _mac(bytes.fromhex(secret), f"place {place} {node_id}")


def admission(key: str, bearer: str, now_s: float) -> str:
    """The same all day long: what is opened with it need not be opened again."""
    until_s = (int(now_s / DAY_S) + 2) * int(DAY_S)
    return f"{bearer} {until_s} {_proof(key, bearer, until_s)}"


def why_not_admitted(key: str, shown: str, now_s: float) -> str:
    """Nothing where it is good."""
    match shown.split(" "):
        case [bearer, until, proof] if until.isdecimal() and len(until) < 16:
            if not hmac.compare_digest(_proof(key, bearer, int(until)).encode(), proof.encode()):
                return "its admission is not good"
            return OVER if now_s > int(until) + SKEW_S else ""
        case _:
            return "it shows no admission"


def _proof(key: str, bearer: str, until_s: int) -> str:
    return _mac(bytes.fromhex(key), f"admission {bearer} {until_s}")
