"""The few addresses by which the guest's own program reaches the extension, with Jupyter's own token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import APIHandler
from tornado.web import authenticated

from gpunion.sdk.session.server.kernels import Kernels, SaveOrder

STATE, SAVE = "gpunion/state", "gpunion/save"


class StateHandler(APIHandler):  # type: ignore[misc]  # it has no types
    def initialize(self, kernels: Kernels) -> None:
        self._kernels = kernels

    @authenticated  # type: ignore[untyped-decorator]
    async def get(self) -> None:
        self.finish(json.dumps(await self._kernels.state()))


class SaveHandler(APIHandler):  # type: ignore[misc]
    def initialize(self, kernels: Kernels) -> None:
        self._kernels = kernels

    @authenticated  # type: ignore[untyped-decorator]
    async def post(self) -> None:
        told = self.get_json_body()
        await self._kernels.save(
            SaveOrder(
                into=Path(told["into"]),
                older=Path(told["older"]) if told["older"] else None,
                wait_s=float(told["wait_s"]),
                limit_s=float(told["limit_s"]),
            )
        )
        self.finish(json.dumps(await self._kernels.state()))


def handlers(base_url: str, kernels: Kernels) -> list[tuple[str, Any, dict[str, object]]]:
    base = base_url.rstrip("/")
    words: dict[str, object] = {"kernels": kernels}
    return [(f"{base}/{STATE}", StateHandler, words), (f"{base}/{SAVE}", SaveHandler, words)]
