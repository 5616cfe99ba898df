"""Which requests a session's page on the loopback answers: those to its own name, from its own pages.

Any site that somebody looks at can send requests to their loopback. What it cannot do is say that they come
from another origin, or, in a form or an image, anything but a plain request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpunion.cli.sessions.http_ends import header

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A session's own host name on this machine."""

    name: str
    port: int

    @property
    def host(self) -> str:
        return f"{self.name}.localhost:{self.port}"

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    def refuses(self, request: Any) -> Refusal | None:
        """BadPeer where a header is there twice."""
        host = (header(request, "host") or "").lower()
        if host != self.host:
            return Refusal(421, f"this is {self.host}, and not {host[:80] or 'nobody'}")
        if header(request, "service-worker") is not None:
            # It would outlive the session, and be in the way of the next one of that name.
            return Refusal(403, "no page of a session may leave a worker in the browser")
        origin = header(request, "origin")
        if origin is not None and origin.lower() != self.origin:
            return Refusal(403, "a page of another site asked for this")
        if origin is None and self._from_elsewhere(request):
            return Refusal(403, "another site asked for this")
        return None

    @staticmethod
    def _from_elsewhere(request: Any) -> bool:
        """Browsers say where a request comes from. Following a link from elsewhere is no harm; all else of
        another site's, and a socket or a change without an origin, is."""
        site = header(request, "sec-fetch-site")
        if site in ("same-origin", "none"):
            return False
        if site is None:  # no browser of today: a program of this user's, which has what it takes anyway
            return False
        follows_link = (
            header(request, "sec-fetch-mode") == "navigate"
            and header(request, "sec-fetch-dest") == "document"
        )
        return request.method.decode() not in SAFE_METHODS or not follows_link
