"""From an address to a client, and from a client's errors to words with an exit code."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gpunion.cli.config import find_address
from gpunion.cli.exits import CONFLICT, DENIED, ERROR, NOT_FOUND, TIMEOUT, UNAVAILABLE, USAGE, Trouble
from gpunion.cli.extras import missing_extra
from gpunion.cli.output.verdicts import verdict_table
from gpunion.sdk.errors import ApiProblem, ClientError, NotACoordinator, Unreachable

if TYPE_CHECKING:
    from gpunion.sdk.client import Client

EXITS_BY_STATUS = {
    401: DENIED,
    403: DENIED,
    404: NOT_FOUND,
    408: TIMEOUT,
    409: CONFLICT,
    429: UNAVAILABLE,
    503: UNAVAILABLE,
}
COMMANDS_BY_PATH = {
    "/api/v1/jobs lists": "gpunion ps -a lists",
    "/api/v1/nodes": "gpunion nodes",
    "/api/v1/images": "gpunion images ls",
    "/api/v1/quotas": "gpunion quotas",
}
MISTAKES = frozenset({"unknown_key", "invalid_request"})


def connect(
    environment: Mapping[str, str], arguments: Namespace, tell: Callable[[str], None] = lambda words: None
) -> Client:
    address = find_address(environment, arguments)
    # httpx loads a command line of its own where rich and click are installed, half as long as all the rest.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    try:
        from gpunion.sdk.client import Client
    except ImportError as error:
        raise missing_extra(error, "cli") from error
    return Client(address.url, address.token, on_wait=tell)


def trouble_of(error: ClientError) -> Trouble:
    match error:
        case ApiProblem():
            return _refused(error)
        case Unreachable():
            plain = "WRONG_VERSION_NUMBER" in error.cause  # as OpenSSL says that no TLS is spoken there
            return Trouble(
                f"the coordinator at {error.url} cannot be reached",
                why="what listens there speaks no TLS" if plain else error.cause,
                next_step=f"try {error.url.replace('https:', 'http:', 1)}"
                if plain
                else "check the address and that it runs: gpunion doctor",
                code=TIMEOUT if _was_slow(error.__cause__) else UNAVAILABLE,
            )
        case NotACoordinator():
            return Trouble(
                f"what answers at {error.url} is not a coordinator of this version",
                why=f"it answered with status {error.status}, and with nothing that a coordinator says",
                next_step="check the address: gpunion doctor",
                code=UNAVAILABLE,
            )
        case _:
            return Trouble(str(error))


def _refused(problem: ApiProblem) -> Trouble:
    code = USAGE if problem.code in MISTAKES else EXITS_BY_STATUS.get(problem.status, ERROR)
    next_step = _in_commands(problem.next_step)
    if problem.status == 401:
        next_step = (
            "gpunion login URL --token TOKEN, with the token the coordinator printed at its first start"
        )
    why = "; ".join(f"{found['at']}: {found['message']}".removeprefix("body.") for found in problem.errors)
    why = why.replace("; body.", "; ").removeprefix("body: ")
    if problem.verdicts:
        why = "\n" + "\n".join(f"  {line}" for line in verdict_table(problem.verdicts).plain())
    return Trouble(problem.detail, why="" if why == problem.detail else why, next_step=next_step, code=code)


def _in_commands(next_step: str) -> str:
    """The API tells its callers what to GET; who types commands is told the command that does."""
    for path, command in COMMANDS_BY_PATH.items():
        next_step = next_step.replace(f"GET {path}", command)
    return next_step


def _was_slow(cause: BaseException | None) -> bool:
    """Told by name: loading the HTTP library only to compare would cost every error a tenth of a second."""
    return any(kind.__name__ == "TimeoutException" for kind in type(cause).__mro__)
