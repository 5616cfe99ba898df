"""One coordinator a module for what may share it, and a fresh one for what ends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunion.sdk.client import Client
from tests.integration.coordinator.process import Coordinator


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    coordinator = Coordinator(tmp_path_factory.mktemp("coordinator")).start()
    yield coordinator
    coordinator.stop()


@pytest.fixture
def client(shared: Coordinator) -> Iterator[Client]:
    with shared.client() as client:
        yield client


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    coordinator = Coordinator(tmp_path / "data")
    yield coordinator
    coordinator.stop()
