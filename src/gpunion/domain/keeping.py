"""A machine whose owner lends disk: it keeps checkpoints, and other machines of the campus hand them over.

The coordinator and the keeping machine share a key. Who may use the place gets an admission made with it: the
keeper can tell a good one by itself, so saving goes on while the coordinator is away. It ends after a day or
two, and with it what a machine that has left the campus may do.
"""

from __future__ import annotations

import hmac

from gpunion.domain.records import dataclass

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


def _mac(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), "sha256").hexdigest()
