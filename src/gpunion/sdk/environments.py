"""The campus's environments over HTTP, as docs/http-api.md has them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

Answer = dict[str, Any]


class EnvironmentCalls:
    """What `Client` can do with environments."""

    def environments(self) -> list[Answer]:
        found: list[Answer] = self._ask("GET", "/environments", again=True)["environments"]
        return found

    def add_environment(self, name: str, requirements: str) -> Answer:
        """`requirements` as pip reads them, every package in one exact version."""
        return self._ask(
            "POST", "/environments", json={"name": name, "requirements": requirements}, again=True
        )

    def remove_environment(self, name: str) -> Answer:
        return self._ask("DELETE", f"/environments/{quote(name, safe='')}")

    def _ask(self, method: str, path: str, **request: Any) -> Answer:
        raise NotImplementedError
