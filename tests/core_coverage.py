"""The coverage gate of the pure core, as a pytest plugin so that one run tests and judges.

`--core-coverage PERCENT` fails the run when statements or branches of domain, lifecycle, policy and engine,
taken together, are reached less than that. Which tests count is said in pyproject.toml (report contexts).
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

import coverage
import pytest

PACKAGES = ("domain", "lifecycle", "policy", "engine")
ROOT = Path(__file__).resolve().parent.parent
LINES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--core-coverage", type=float, default=None, help="percent of the pure core to be reached"
    )


# trylast: pytest-cov has combined and saved the workers' data before.
@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    wanted = session.config.getoption("--core-coverage")
    if wanted is None or hasattr(session.config, "workerinput"):
        return
    lines, fulfilled = judge(measure(), wanted)
    session.config.stash[LINES] = lines
    if not fulfilled and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = terminalreporter.config.stash.get(LINES, [])
    if lines:
        terminalreporter.section("coverage of the pure core")
        for line in lines:
            terminalreporter.write_line(line)


def judge(counts: dict[str, Counter[str]], wanted: float) -> tuple[list[str], bool]:
    everything: Counter[str] = sum(counts.values(), Counter())
    lines = [describe(package, count) for package, count in counts.items()]
    lines.append(describe("together", everything))
    reached = [percent(everything, kind) for kind in ("statements", "branches")]
    fulfilled = min(reached) >= wanted
    lines.append(f"{'fulfilled' if fulfilled else 'FAILED'}: at least {wanted:g} % is asked for")
    return lines, fulfilled


def describe(name: str, count: Counter[str]) -> str:
    shares = (f"{kind} {percent(count, kind):6.2f} %" for kind in ("statements", "branches"))
    return f"{name:<12}" + "  ".join(shares)


def percent(count: Counter[str], kind: str) -> float:
    if not count[kind]:
        return 100.0
    return 100.0 * count[f"covered {kind}"] / count[kind]


def measure() -> dict[str, Counter[str]]:
    counts = {package: Counter[str]() for package in PACKAGES}
    for path, summary in file_summaries().items():
        # A run that reached nothing has no branch figures; its statements then fail the gate.
        relative = (ROOT / path).relative_to(ROOT / "src" / "gpunion")
        counts[relative.parts[0]].update(
            {
                "statements": summary["num_statements"],
                "covered statements": summary["covered_lines"],
                "branches": summary.get("num_branches", 0),
                "covered branches": summary.get("covered_branches", 0),
            }
        )
    return counts


def file_summaries() -> dict[str, dict[str, int]]:
    data = coverage.Coverage(config_file=str(ROOT / "pyproject.toml"), data_file=str(ROOT / ".coverage"))
    data.load()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        try:
            data.json_report(outfile=str(report))
        except coverage.exceptions.NoDataError:
            return {}
        files = json.loads(report.read_text(encoding="utf-8"))["files"]
    return {path: entry["summary"] for path, entry in files.items()}
