"""Packages for jobs: installed once a node by the real pip, from wheels that travel with the job."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from gpunion.adapters import pip_packages
from gpunion.adapters.pip_packages import PipPackages
from gpunion.agent.machine.packages import Environment, EnvironmentKeeper, EnvironmentTrouble
from gpunion.domain.environment import InstalledEnvironment, package_list
from gpunion.domain.ids import RunId
from gpunion.domain.lockfile import parse_lockfile
from gpunion.ports.packages import Kept, PackagesFault, Wish
from tests.trees import a_tree
from tests.unit.agent.fakes import until

LIMIT_BYTES = 1024**3


def a_wheel(folder: Path, name: str = "tiny", version: str = "1.0", more: str = "") -> Path:
    """A pure-Python wheel, as small as one can be; `more` are lines of its metadata."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}"
    files = {
        f"{name}.py": f"VERSION = '{version}'\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={_sum(text)},{len(text)}\n" for path, text in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in files.items():
            archive.writestr(inner, text)
    return path


def _sum(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def wish(text: str, *folders: Path) -> Wish:
    return Wish(lockfile=parse_lockfile(text), folders=folders)


def test_wheels_are_installed_whole_and_the_lockfile_s_hashes_hold(tmp_path: Path) -> None:
    wheel = a_wheel(tmp_path / "wheels")
    packages = PipPackages(tmp_path / "cache", limit_bytes=LIMIT_BYTES)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    packages.install(
        "k", wish(f"--no-index\ntiny==1.0 --hash=sha256:{digest}\n", wheel.parent), lambda: False
    )
    assert packages.ready("k")
    told = subprocess.run(
        [sys.executable, "-c", "import tiny; print(tiny.VERSION)"],
        env={"PYTHONPATH": str(packages.place("k"))}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout == "1.0\n"
    with pytest.raises(PackagesFault, match="DO NOT MATCH THE HASHES"):
        packages.install(
            "other",
            wish(f"--no-index\ntiny==1.0 --hash=sha256:{'0' * 64}\n", wheel.parent),
            lambda: False,
        )
    assert not packages.ready("other")
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []


@pytest.mark.parametrize(("pinned", "needed"), [("tiny[x]", "tiny"), ("tiny", "tiny[x]")])
def test_a_pin_holds_whether_its_extras_are_named_or_not(tmp_path: Path, pinned: str, needed: str) -> None:
    folder, extra = tmp_path / "wheels", "Provides-Extra: x\n"
    hashes = {
        path.name.partition("-")[0]: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (
            a_wheel(folder, "tiny", "1.0", extra),
            a_wheel(folder, "after", "1.0", f"Requires-Dist: {needed}>=1.0\n"),
        )
    }
    a_wheel(folder, "tiny", "2.0", extra)  # released after the list was written
    text = f"after==1.0 --hash=sha256:{hashes['after']}\n{pinned}==1.0 --hash=sha256:{hashes['tiny']}\n"
    packages = PipPackages(tmp_path / "cache", limit_bytes=LIMIT_BYTES)
    packages.install("k", wish(f"--no-index\n{text}", folder), lambda: False)
    assert (packages.place("k") / "tiny.py").read_text() == "VERSION = '1.0'\n"


def test_a_package_that_would_run_something_to_be_installed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    source = tmp_path / "wheels" / "built-1.0"
    source.mkdir(parents=True)
    (source / "setup.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: built\nVersion: 1.0\n")
    with tarfile.open(tmp_path / "wheels" / "built-1.0.tar.gz", "w:gz") as archive:
        archive.add(source, "built-1.0")
    monkeypatch.setenv("PIP_NO_BINARY", "built")
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")
    packages = PipPackages(tmp_path / "cache", limit_bytes=LIMIT_BYTES)
    for text in ("--no-index\nbuilt==1.0\n", "--no-index\nbuilt-1.0.tar.gz\n"):
        with pytest.raises(PackagesFault):
            packages.install("k", wish(text, tmp_path / "wheels"), lambda: False)
    assert not ran.exists()


def test_packages_larger_than_their_quota_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    wheel = a_wheel(tmp_path / "wheels")
    packages = PipPackages(tmp_path / "cache", limit_bytes=100)
    with pytest.raises(PackagesFault, match="more than the 100 bytes"):
        packages.install("k", wish("--no-index\ntiny==1.0\n", wheel.parent), lambda: False)
    assert not packages.ready("k")
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []


def test_what_pip_said_last_is_told_and_a_cancelled_install_ends(tmp_path: Path) -> None:
    packages = PipPackages(tmp_path / "cache", limit_bytes=LIMIT_BYTES)
    with pytest.raises(PackagesFault, match="No matching distribution found for absent==9"):
        packages.install("k", wish("--no-index\nabsent==9\n"), lambda: False)
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nsleep 600\n")
    slow.chmod(0o755)
    asleep = PipPackages(tmp_path / "cache", limit_bytes=LIMIT_BYTES, python=str(slow))
    with pytest.raises(PackagesFault, match="ended before"):
        asleep.install("k", wish("absent==9\n"), lambda: True)


def test_the_least_recently_used_go_first_and_those_in_use_never(tmp_path: Path) -> None:
    packages = PipPackages(tmp_path / "cache", limit_bytes=25)
    for number, key in enumerate(("used", "old", "new")):
        packages.place(key).mkdir(parents=True)
        (packages.place(key).parent / "size").write_text("10")
        os.utime(packages.place(key).parent, (number, number))
    packages.trim({"used"})
    assert [key for key in ("used", "old", "new") if packages.place(key).exists()] == ["used", "new"]


class SlowPackages:
    """Implements `ports.packages.Packages`: says when it was asked, and waits to be let go on."""

    base = "base-1"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.installs = 0
        self.go = asyncio.Event()
        self.fault: PackagesFault | None = None
        self.kept: set[str] = set()
        self.there: set[str] = set()
        self.labels: set[str] = set()
        self._loop = asyncio.get_running_loop()

    def place(self, key: str) -> Path:
        return self.root / key

    def ready(self, key: str) -> bool:
        return key in self.there

    def install(
        self, key: str, wish: Wish, cancelled: Callable[[], bool], told: Callable[[float], None]
    ) -> None:
        self.installs += 1
        asyncio.run_coroutine_threadsafe(self.go.wait(), self._loop).result(30)
        if self.fault is not None:
            raise self.fault
        self.there.add(key)
        self.labels |= {wish.label} - {""}

    def labelled(self) -> tuple[Kept, ...]:
        return tuple(Kept(label=label, size_bytes=7) for label in sorted(self.labels))

    def trim(self, keep: Collection[str]) -> None:
        self.kept = set(keep)


LOCKFILE = b"-f wheels\ntiny==1.0\n"


def planned(keeper: EnvironmentKeeper, text: bytes = LOCKFILE, wheel: bytes = b"1") -> Environment:
    tree = a_tree({"env/requirements.txt": text, "env/wheels/tiny.whl": wheel, "train.py": b"x"})
    return keeper.plan("env/requirements.txt", text, tree.files)


async def test_two_jobs_that_want_the_same_get_it_once(tmp_path: Path) -> None:
    packages = SlowPackages(tmp_path)
    keeper = EnvironmentKeeper(packages=packages)
    environment = planned(keeper)
    keeper.holds(RunId("r1"), environment.key)
    both = [asyncio.create_task(keeper.have(environment, tmp_path, lambda: False)) for _ in range(2)]
    await until(lambda: packages.installs)
    packages.go.set()
    assert sorted(await asyncio.gather(*both)) == [False, True]
    assert packages.installs == 1
    assert packages.kept == {environment.key}
    assert environment.folders(tmp_path) == (tmp_path / "env" / "wheels",)


async def test_what_matters_makes_another_environment_and_nothing_else_does(tmp_path: Path) -> None:
    packages = SlowPackages(tmp_path)
    keeper = EnvironmentKeeper(packages=packages)
    first = planned(keeper)
    assert planned(keeper, b"# a comment\n-f ./wheels\ntiny==1.0\n").key == first.key
    assert planned(keeper, wheel=b"2").key != first.key
    assert planned(keeper, b"-f wheels\ntiny==1.1\n").key != first.key
    packages.base = "base-2"
    assert planned(keeper).key != first.key


async def test_a_failed_install_is_told_with_the_file_s_name_and_can_be_tried_again(tmp_path: Path) -> None:
    packages = SlowPackages(tmp_path)
    packages.go.set()
    packages.fault = PackagesFault("no such version")
    keeper = EnvironmentKeeper(packages=packages)
    with pytest.raises(EnvironmentTrouble, match=r"env/requirements.txt could not be .* no such version"):
        await keeper.have(planned(keeper), tmp_path, lambda: False)
    packages.fault = None
    assert await keeper.have(planned(keeper), tmp_path, lambda: False)
    with pytest.raises(EnvironmentTrouble, match="uv export"):
        keeper.plan("uv.lock", b"", ())


async def test_an_environment_of_the_campus_is_installed_once_and_told_of(tmp_path: Path) -> None:
    packages = SlowPackages(tmp_path)
    packages.go.set()
    keeper = EnvironmentKeeper(packages=packages)
    listed = package_list("tiny", "tiny==1.0\n")
    assert await keeper.have(keeper.published(listed), tmp_path, lambda: False)
    again = EnvironmentKeeper(packages=packages)
    assert not await again.have(again.published(listed), tmp_path, lambda: False)
    again.look()
    assert again.installed == keeper.installed == (InstalledEnvironment(digest=listed.digest, size_bytes=7),)
    assert again.published(package_list("tiny", "tiny==1.1\n")).key != again.published(listed).key


def test_a_full_disk_is_told_apart_from_packages_that_are_not_there(tmp_path: Path) -> None:
    packages = PipPackages(tmp_path / "cache", limit_bytes=10**9, python=str(tmp_path / "pip"))
    (tmp_path / "pip").write_text("#!/bin/sh\necho 'ERROR: [Errno 28] No space left on device'; exit 1\n")
    (tmp_path / "pip").chmod(0o755)
    wish = Wish(lockfile=parse_lockfile("tiny==1.0\n"), folders=())
    with pytest.raises(PackagesFault, match="No space left on device") as full:
        packages.install("key", wish, lambda: False)
    assert full.value.no_room
    (tmp_path / "pip").write_text("#!/bin/sh\necho 'ERROR: No matching distribution'; exit 1\n")
    with pytest.raises(PackagesFault, match="No matching distribution") as unknown:
        packages.install("key", wish, lambda: False)
    assert not unknown.value.no_room


def test_what_an_environment_is_called_and_weighs_is_found_again(tmp_path: Path) -> None:
    (tmp_path / "pip").write_text("#!/bin/sh\n:\n")
    (tmp_path / "pip").chmod(0o755)
    packages = PipPackages(tmp_path / "cache", limit_bytes=10**9, python=str(tmp_path / "pip"))
    lockfile = parse_lockfile("tiny==1.0\n")
    packages.install("one", Wish(lockfile=lockfile, folders=(), label="a"), lambda: False)
    packages.install("two", Wish(lockfile=lockfile, folders=()), lambda: False)
    assert packages.labelled() == (Kept(label="a", size_bytes=0),)


def test_how_far_it_is_counts_what_was_fetched_and_what_is_unpacked(tmp_path: Path) -> None:
    said = tmp_path / "said"
    said.write_text("Processing ./a.whl\nCollecting b==1\n  Downloading b-1.whl (2 kB)\n")
    assert pip_packages._done(tmp_path, said, asked=2) == 0.5
    (tmp_path / "pip-target-x" / "lib" / "python" / "a-1.dist-info").mkdir(parents=True)
    assert pip_packages._done(tmp_path, said, asked=2) == 0.75
    assert pip_packages._done(tmp_path, said, asked=0) == 0.0
