"""Native code as it is built here, as it would be on another processor, and none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunion.adapters.files.native import Native, with_native
from gpunion.adapters.files.native.build import NotBuilt, build


def built(folder: Path, *flags: str) -> Native:
    library = folder / "built.so"
    try:
        build(library, *flags)
    except NotBuilt as why:
        pytest.skip(f"C compiler is absent: {why}")
    return Native(library)


@pytest.fixture(scope="session")
def portable(tmp_path_factory: pytest.TempPathFactory) -> Native:
    return built(tmp_path_factory.mktemp("portable"), "-DGPUNION_PORTABLE")


@pytest.fixture(scope="session")
def narrower(tmp_path_factory: pytest.TempPathFactory) -> Native:
    """As on a processor with rows of 32 bytes, where this one has rows of 64."""
    return built(tmp_path_factory.mktemp("narrower"), "-DGPUNION_NOT_WIDEST")


@pytest.fixture(scope="session")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Native:
    found = built(tmp_path_factory.mktemp("fast"))
    if not found.is_fast:
        pytest.skip("fast native code is absent: this processor is of another kind")
    return found


@pytest.fixture(scope="module", params=["numpy", "native", "portable"])
def every_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """A module's tests once with each."""
    names = {"native": "fast", "portable": "portable"}
    library = None if request.param == "numpy" else request.getfixturevalue(names[request.param])
    with with_native(library):
        yield
