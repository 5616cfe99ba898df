"""What the command line asks of a coordinator: the part of `gpunion.sdk.client.Client` it uses.

Answers are the JSON objects of docs/http-api.md; trouble is a `gpunion.sdk.errors.ClientError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Json = dict[str, Any]


class Campus(Protocol):
    url: str

    def campus(self) -> Json: ...

    def put_bundle(self, data: bytes) -> str: ...

    def submit(self, job: Mapping[str, Any]) -> Json: ...

    def jobs(self, *, phases: Sequence[str] = (), limit: int = 100, cursor: str | None = None) -> Json: ...

    def job(self, job_id: str) -> Json: ...

    def why(self, job_id: str) -> Json: ...

    def stop(self, job_id: str) -> Json: ...

    def checkpoints(self, job_id: str) -> list[Json]: ...

    def logs(self, job_id: str, *, offset: int = 0, limit: int | None = None) -> Json: ...

    def nodes(self) -> list[Json]: ...

    def make_join_token(self, *, expires_in_s: float = 3600.0) -> Json: ...
