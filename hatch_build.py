"""Builds the native code, where there is a C compiler, before the package is installed or packed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILD = Path(__file__).parent / "src/gpunion/adapters/files/native/build.py"


class NativeCode(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        spec = importlib.util.spec_from_file_location("native_build", BUILD)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        try:
            module.main()
        except Exception as error:  # whatever it is, all works without
            print(f"native code: not built: {error}")
        # A wheel for any machine still: where what was built does not fit, numpy does the work.
        build_data["artifacts"].append("*.so")
