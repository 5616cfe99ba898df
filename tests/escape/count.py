"""Says at the end of a test run how many attempts to escape were refused, runtime by runtime."""

from __future__ import annotations

import re
from collections import Counter

import pytest

NODE = re.compile(r"tests/escape/test_escape\.py::.*\[(docker|podman|sandbox)\b")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    refused, tried, exceptions = Counter[str](), Counter[str](), []
    for outcome in ("passed", "failed", "xfailed"):
        for report in terminalreporter.stats.get(outcome, []):
            found = NODE.match(report.nodeid)
            if found is None or report.when != "call":
                continue
            tried[found[1]] += 1
            refused[found[1]] += outcome == "passed"
            if outcome == "xfailed":
                exceptions.append(report.wasxfail.removeprefix("reason: "))
    for runtime in sorted(tried):
        terminalreporter.write_line(
            f"escape: {runtime}: {refused[runtime]} of {tried[runtime]} attempts refused"
        )
    for exception in exceptions:
        terminalreporter.write_line(f"escape: {exception}")
