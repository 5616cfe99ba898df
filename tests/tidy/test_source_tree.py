"""Reads the tree itself: what a linter does not know about how we want it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "gpunion"

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
ROOM_MODULES_MAX = 15
# Folders that still hold more, and how many: these numbers only shrink.
CROWDED_ROOMS = {"vault": 37, "cli/commands/operator": 20}
VAGUE_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "base", "core", "misc"}
PURE_PACKAGES = ("domain", "lifecycle", "policy", "engine")
NUMERIC_LIBRARIES = {"numpy", "scipy"}

# A file that names where packages were fetched from, or where somebody's checkout was, works on one machine
# only. The words are put together here so that this file may be read by its own test.
SLASH = "/"
TELLTALES = {
    "a package registry": r"\b(py" + r"pi\.(org|python)|python" + r"hosted\.org|ana" + r"conda\.org)",
    "an index of packages": r"(index" + r"[-_]url|find" + r"[-_]links|trusted" + r"[-_]host)",
    "a path of one machine": rf"(?<![\w.$}}~-]){SLASH}(work|root|home|Users){SLASH}\w",
}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    lengths = {shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert {path: lines for path, lines in lengths.items() if lines > MODULE_LINES_MAX} == {}


def test_no_room_holds_more_modules_than_a_newcomer_can_look_over() -> None:
    held = Counter(path.parent for path in modules() if path.name != "__init__.py")
    crowded = {
        room.relative_to(SOURCE).as_posix(): count for room, count in held.items() if count > ROOM_MODULES_MAX
    }
    assert crowded == CROWDED_ROOMS


def test_no_function_is_longer_than_a_screen() -> None:
    lengths = {f"{shown(path)}:{name}": lines for path in modules() for name, lines in functions(path)}
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX} == {}


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_modules_are_named_for_what_they_hold() -> None:
    named = [path for path in SOURCE.rglob("*") if path.is_dir() or path.suffix == ".py"]
    assert [shown(path) for path in named if path.stem in VAGUE_NAMES] == []


def test_every_module_says_what_it_is_for() -> None:
    assert [shown(path) for path in modules() if not ast.get_docstring(tree_of(path))] == []


@pytest.mark.parametrize("package", PURE_PACKAGES)
def test_the_pure_core_needs_no_third_party(package: str) -> None:
    allowed = sys.stdlib_module_names | {"gpunion"} | (NUMERIC_LIBRARIES if package == "policy" else set())
    assert foreign_imports(SOURCE / package, allowed) == []


@pytest.mark.parametrize("package", PURE_PACKAGES)
def test_the_pure_core_is_what_its_source_says(package: str) -> None:
    """No code is made of texts, and no object changes its class: a reader and mypy see all there is."""
    found = [
        f"{shown(path)}:{node.lineno} {what}"
        for path in sorted((SOURCE / package).rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call | ast.Attribute)
        for what in tricks(node)
    ]
    assert found == []


@pytest.mark.parametrize(
    "trick",
    ["exec(text)", "eval(text)", "compile(text, 'a', 'exec')", "type('A', (), {})", "a.__class__ = B"],
)
def test_tricks_are_seen(trick: str) -> None:
    nodes = [node for node in ast.walk(ast.parse(trick)) if isinstance(node, ast.Call | ast.Attribute)]
    assert [what for node in nodes for what in tricks(node)]


def tricks(node: ast.Call | ast.Attribute) -> list[str]:
    if isinstance(node, ast.Attribute):
        written = node.attr == "__class__" and isinstance(node.ctx, ast.Store)
        return ["writes __class__"] if written else []
    called = ast.unparse(node.func)
    makes_code = called in {"exec", "eval", "compile", "builtins.exec", "builtins.eval"}
    makes_a_class = called == "type" and len(node.args) > 1
    return [called] if makes_code or makes_a_class else []


def test_what_runs_inside_a_job_needs_no_third_party() -> None:
    assert foreign_imports(SOURCE / "sdk" / "job", sys.stdlib_module_names | {"gpunion"}) == []


def test_what_runs_inside_a_job_loads_nothing_else_of_gpunion() -> None:
    """Importing a subpackage runs its parents, which a linter of import lines does not see."""
    program = (
        f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r}); import gpunion.sdk.job;"
        "print(*sorted(name for name in sys.modules if name.startswith('gpunion')))"
    )
    # -S: without site-packages, so that a third-party import fails at once.
    loaded = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True)
    assert loaded.returncode == 0, loaded.stderr
    allowed = {"gpunion", "gpunion._version", "gpunion.sdk"}
    strangers = set(loaded.stdout.split()) - allowed
    assert {name for name in strangers if not name.startswith("gpunion.sdk.job")} == set()


def foreign_imports(folder: Path, allowed: frozenset[str] | set[str]) -> list[str]:
    return [
        f"{shown(path)} imports {name}"
        for path in sorted(folder.rglob("*.py"))
        for name in imported_names(path)
        if name.partition(".")[0] not in allowed
    ]


def imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


@pytest.mark.parametrize("telltale", TELLTALES)
def test_no_file_tells_of_the_machine_it_was_written_on(telltale: str) -> None:
    pattern = re.compile(TELLTALES[telltale])
    found = [
        f"{shown(path)}:{number}: {line.strip()[:100]}"
        for path in tracked_files()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == []


@cache
def tracked_files() -> list[Path]:
    """Files of the next commit: tracked, or new and not ignored."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    pages = sorted(page.name for page in folder.glob("*.md") if page.name != "README.md")
    assert [page for page in pages if f"({page})" not in index] == []


def test_nobody_runs_tasks_in_a_group() -> None:
    """Before Python 3.13 a group whose task fails forgets that its owner was cancelled meanwhile; Debian 12's
    own may leave the owner half cancelled, and every `asyncio.timeout` after that ends it."""
    assert [shown(path) for path in modules() if "TaskGroup(" in path.read_text(encoding="utf-8")] == []


def test_nobody_catches_groups_by_their_parts() -> None:
    """Debian 12's own Python (3.11.2) wraps what is raised in `except*` into a group once more."""
    assert [
        shown(path) for path in modules() if any(isinstance(n, ast.TryStar) for n in ast.walk(tree_of(path)))
    ] == []


ASKING = {"get", "put", "post", "delete", "request", "stream", "Client", "AsyncClient"}


def test_no_test_asks_over_http_without_saying_how_long_it_waits() -> None:
    """Five seconds, if it does not: they passed on a busy machine while a server loaded its libraries."""
    assert [
        f"{shown(path)}:{call.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for call in ast.walk(tree_of(path))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in {f"httpx.{name}" for name in ASKING}
        and not any(word.arg in ("timeout", "transport") for word in call.keywords)
    ] == []


WALKS_PROCESSES = {"os.listdir('/proc')", "os.scandir('/proc')", "Path('/proc')"}
MAY_WALK = {"tests/real_machine.py", "tests/escape/attempts/processes.py"}  # the latter is run as a guest


def test_no_test_lists_processes_by_itself() -> None:
    """Processes and descriptors go while they are listed: a test that forgot it failed for no fault."""
    assert [
        f"{shown(path)}:{call.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for call in ast.walk(tree_of(path))
        if isinstance(call, ast.Call) and ast.unparse(call) in WALKS_PROCESSES and shown(path) not in MAY_WALK
    ] == []
