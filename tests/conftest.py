"""What every test may use: the `requires` mark and the coverage gate of the pure core.

    @pytest.mark.requires("bwrap")
    def test_...

A service that is absent skips the test by name. Where GPUNION_REQUIRE lists it (comma-separated), the test
fails instead, so that a CI machine cannot lose a service without anybody noticing.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator

import pytest

from tests.services import KNOWN_SERVICES, why_absent

# Guests of an agent that is not root are its own user, whose number of processes is limited: beside a fork
# bomb nobody starts. And they are heavy.
SANDBOXED = ("tests/escape/", "tests/contract/runtime/", "tests/integration/sandbox/")

# As in pyproject.toml, where the report's contexts are named.
COUNTING = ("tests/unit/", "tests/property/", "tests/simulation/")

pytest_plugins = ["tests.core_coverage", "tests.escape.count", "tests.searching"]


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in a shell's background. What the tests start would inherit it, and hear no Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    unknown = required_services() - KNOWN_SERVICES
    if unknown:
        known = ", ".join(sorted(KNOWN_SERVICES))
        raise pytest.UsageError(f"GPUNION_REQUIRE names {', '.join(sorted(unknown))}; known are {known}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that fight over something take turns: they share a worker."""
    for item in items:
        if item.get_closest_marker("xdist_group") is not None:
            continue
        if item.nodeid.startswith("tests/system/"):
            item.add_marker(pytest.mark.xdist_group("system"))
        elif item.nodeid.startswith(SANDBOXED) and "sandbox" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group("sandbox"))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Only what counts for the core is followed, and `no_cover` holds in worker processes too.

    There pytest-cov's own pause wakes another tracer, so this comes after it.
    """
    tracing = sys.gettrace()
    counts = item.nodeid.startswith(COUNTING) and item.get_closest_marker("no_cover") is None
    if counts or tracing is None:
        return (yield)
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracing)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("requires"):
        for service in mark.args:
            require(service)


def require(service: str) -> None:
    reason = why_absent(service)
    if reason is None:
        return
    if service in required_services():
        pytest.fail(f"{service} is absent, and GPUNION_REQUIRE lists it: {reason}", pytrace=False)
    pytest.skip(f"{service} is absent: {reason}")


def required_services() -> frozenset[str]:
    words = os.environ.get("GPUNION_REQUIRE", "").split(",")
    return frozenset(word.strip() for word in words if word.strip())
