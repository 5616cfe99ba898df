"""Sessions over HTTP, as docs/http-api.md has them. `gpunion.sdk.streams` has the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

Answer = dict[str, Any]

# What a session's guest runs; every runtime gives guests this library.
PROGRAM = ("python3", "-m", "gpunion.sdk.session")


class SessionCalls:
    """What `Client` can do with sessions."""

    def start_session(
        self, name: str, kind: str = "notebook", *, job: Mapping[str, Any] | None = None, **session: Any
    ) -> Answer:
        """{job, reasons, verdicts}. `job`: what else is asked for, as for any job; `session`: as SessionIn
        has it. ApiProblem `session_exists`: one of that name lives."""
        asked = {"command": [*PROGRAM, kind], **(job or {})}
        return self.submit({**asked, "name": name, "session": {"kind": kind, **session}})

    def sessions(self, *, all: bool = False) -> list[Answer]:
        """`all`: those too that are over."""
        params = {"all": all} if all else None
        found: list[Answer] = self._ask("GET", "/sessions", params=params, again=True)["sessions"]
        return found

    def session(self, name: str) -> Answer:
        """By its name or its job's id, with the `token` of its own server."""
        return self._ask("GET", f"/sessions/{quote(name, safe='')}", again=True)

    def end_session(self, name: str) -> Answer:
        """As if nobody had worked in it for long: it saves, what it made is kept, and it ends."""
        return self._ask("POST", f"/sessions/{quote(name, safe='')}/end", again=True)

    def submit(self, job: Mapping[str, Any]) -> Answer:
        raise NotImplementedError

    def _ask(self, method: str, path: str, **request: Any) -> Answer:
        raise NotImplementedError
