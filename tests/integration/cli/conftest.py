"""One campus for the tests that only ask, and one with a machine for those that lend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.program import Program


@pytest.fixture(scope="module")
def gpunion(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """With a coordinator, and no machine."""
    program = Program(tmp_path_factory.mktemp("campus"))
    try:
        program.start_coordinator()
        yield program
    finally:
        program.close()


@pytest.fixture(scope="module")
def lending(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """With a coordinator and this machine, which lends two declared GPUs."""
    program = Program(tmp_path_factory.mktemp("lending"))
    try:
        program.start_coordinator()
        token = program("coordinator", "token", "-q").out.strip()
        # Unsandboxed, so that these tests need no bubblewrap: they are about the command line.
        words = ["--name", "alpha", "--lab", "vision", "--gpu", "TEST:8GB", "--gpu", "TEST:8GB:0.5"]
        joined = program("join", program.url(), "--token", token, *words, "--allow-unsandboxed", "--json")
        assert joined.code == 0, joined.err
        program.start_agent()
        program.wait_for(
            lambda: program("nodes", "--json").json()["nodes"], "the machine is part of the campus"
        )
        yield program
    finally:
        program.close()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Program]:
    """Nothing runs."""
    program = Program(tmp_path)
    yield program
    program.close()
