"""What can go wrong between a client and the coordinator, in sentences for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ClientError(Exception):
    """Anything this client raises. `str()` says what happened and what to do next."""


class ApiProblem(ClientError):
    """The coordinator refused. `code` is stable; `verdicts` and `errors` are there where they apply."""

    def __init__(
        self,
        *,
        code: str,
        title: str,
        detail: str,
        next_step: str,
        status: int,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{detail}; {next_step}" if next_step else detail)
        self.code = code
        self.title = title
        self.detail = detail
        self.next_step = next_step
        self.status = status
        self.body: Mapping[str, Any] = body or {}

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        return list(self.body.get("verdicts") or ())

    @property
    def errors(self) -> list[dict[str, Any]]:
        return list(self.body.get("errors") or ())


class Unreachable(ClientError):
    """Nobody answered, or the answer was cut off. Whether the request was carried out is not known."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(
            f"the coordinator at {url} cannot be reached ({cause}); "
            "is it running, and is the address right? `gpunion doctor` looks"
        )
        self.url = url
        self.cause = cause


class NotACoordinator(ClientError):
    """Something answered that is not a coordinator of this version."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(
            f"what answers at {url} is not a GPUnion coordinator (status {status} and no problem report); "
            "check the address"
        )
        self.url = url
        self.status = status
