"""What is needed in a hurry starts at once."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest

TIMES = 10
FACTOR_MAX = 4.0
# A machine that does something else for a moment must not fail the build; one that is too slow always does.
ATTEMPTS = 5
# Everything that takes a noticeable time to load.
HEAVY = {
    "argparse",
    "json",
    "asyncio",
    "pathlib",
    "typing",
    "dataclasses",
    "httpx",
    "rich",
    "pydantic",
    "logging",
}
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("COV")}


def took_s(command: Sequence[str]) -> float:
    began_s = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT)
    return time.perf_counter() - began_s


def factor() -> float:
    """Side by side: whatever else the machine does meets both."""
    bare, ours = [], []
    for _ in range(TIMES):
        bare.append(took_s([sys.executable, "-c", "pass"]))
        ours.append(took_s([sys.executable, "-m", "gpunion", "--version"]))
    return statistics.median(ours) / statistics.median(bare)


def test_the_version_takes_at_most_four_times_as_long_as_nothing() -> None:
    factors: list[float] = []
    while len(factors) < ATTEMPTS and (not factors or factors[-1] > FACTOR_MAX):
        factors.append(factor())
    assert factors[-1] <= FACTOR_MAX, factors


def loaded(*words: str) -> set[str]:
    """Modules that `gpunion WORDS` loads and a bare interpreter does not."""
    return _imports(["-m", "gpunion", *words]) - _imports(["-c", "import runpy"])


def _imports(words: list[str]) -> set[str]:
    traced = subprocess.run(
        [sys.executable, "-X", "importtime", *words], capture_output=True, text=True, env=ENVIRONMENT
    )
    lines = [line for line in traced.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


def test_the_version_loads_next_to_nothing() -> None:
    modules = loaded("--version")
    assert modules & HEAVY == set()
    assert {name for name in modules if name.startswith("gpunion")} <= {"gpunion", "gpunion._version"}


def test_kill_loads_its_own_package_and_little_else(tmp_path: object) -> None:
    modules = loaded("kill", "--state-dir", str(tmp_path))
    assert modules & (HEAVY - {"json"}) == set()
    ours = {name for name in modules if name.startswith("gpunion.")}
    own = ("gpunion.owner_kill", "gpunion._version", "gpunion.files")
    assert {name for name in ours if not name.startswith(own)} == set()


def test_asking_a_coordinator_loads_what_carries_the_question_and_no_more() -> None:
    modules = loaded("quotas", "rm", "user:nobody", "--url", "http://127.0.0.1:1", "--token", "t")
    assert "httpx" in modules
    needless = {"rich", "click", "pygments", "pydantic", "uuid", "difflib", "asyncio", "tomllib"}
    assert {name.partition(".")[0] for name in modules} & needless == set()


@pytest.mark.parametrize(
    "words", [["--help"], ["ps", "--help"], ["status", "--help"], ["sim", "fuzz", "--help"]]
)
def test_help_loads_no_library_of_others(words: list[str]) -> None:
    third_party = {"httpx", "rich", "pydantic", "fastapi", "sqlalchemy", "numpy", "structlog", "msgspec"}
    assert {name.partition(".")[0] for name in loaded(*words)} & third_party == set()
