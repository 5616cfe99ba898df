"""Leaving without a trace: what was here, what is gone, and what could not be removed, as a receipt.

The agent does most of it when it is there: guests get their notice, the campus hears a goodbye. The rest, and
everything where the agent is gone or hangs, is done here. What is on the machine is looked at before and
after, so the receipt says what is so and not what was tried.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpunion.agent.compose.coordinator_requests import say_goodbye
from gpunion.agent.compose.leftovers import remove_traces, traces_of
from gpunion.agent.compose.runtime_files import PROBE_HOME
from gpunion.agent.machine.abilities import Traces
from gpunion.agent.machine.service import ServiceTrouble, installed, uninstall
from gpunion.agent.owner import client as owner_client
from gpunion.agent.settings import Settings, SettingsTrouble, load_settings
from gpunion.agent.state_dir import FAREWELL_FILE, LOCK_FILE, OURS
from gpunion.files import read_json
from gpunion.owner_kill import kill_all
from gpunion.owner_kill.guest import guest_dirs, members, read_keeper
from gpunion.owner_kill.processes import start_ticks

NOT_OURS = "it is not ours"
# The mark of what the campus's install script has made; only that is removed with us.
INSTALLED_MARK = ".installed-by-gpunion"
# Where the script has put a link to it. A user may have no home that anybody knows of, and leaves as well.
LINK_DIRS = (Path("/usr/local/bin"), Path(os.path.expanduser("~"), ".local", "bin"))
WAIT_S = 0.1
GOODBYE_MARGIN_S = 90.0  # after the notice: the last saves' end, the goodbye, removing what was here
TERM_S = 5.0


@dataclass(slots=True, kw_only=True)
class Receipt:
    removed: dict[str, list[str]] = field(default_factory=dict)
    left_behind: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)  # what others on this machine still use
    freed_bytes: int = 0
    node_id: str = ""
    coordinator: str = ""
    coordinator_told: bool = False
    took_s: float = 0.0

    @property
    def clean(self) -> bool:
        return not self.left_behind

    @property
    def left_only_yours(self) -> bool:
        """What is left behind is nothing but files that the owner put there."""
        return all(item.endswith(NOT_OURS) for item in self.left_behind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Belongings:
    """What is on this machine because of an agent over one state directory."""

    guests: tuple[str, ...]
    processes: tuple[tuple[int, int], ...]  # and when each started: a number alone may be somebody else's
    cgroups: tuple[str, ...]
    mounts: tuple[str, ...]
    files: tuple[str, ...]
    units: tuple[str, ...]
    size_bytes: int


def look(state_dir: Path) -> Belongings:
    guests = [guest for home in _homes(state_dir) for guest in guest_dirs(str(home))]
    keepers = [keeper for keeper in map(read_keeper, guests) if keeper is not None]
    processes = {process for guest in guests for process in members(guest)}
    processes |= {(keeper.pid, keeper.start_ticks) for keeper in keepers if keeper.alive()}
    agent = _agent_pid(state_dir)
    if agent is not None:
        processes.add((agent, start_ticks(agent) or 0))
    files = sorted(entry for entry in _entries(state_dir) if entry.name in OURS)
    return Belongings(
        guests=tuple(os.path.basename(guest) for guest in guests),
        processes=tuple(sorted(processes)),
        cgroups=tuple(keeper.cgroup for keeper in keepers if keeper.cgroup and os.path.isdir(keeper.cgroup)),
        mounts=tuple(_mounts_under(state_dir)),
        files=tuple(map(str, files)),
        units=tuple(str(service.unit_file) for service in installed(state_dir)),
        size_bytes=sum(map(_size_bytes, files)),
    )


def purge(
    state_dir: Path, notice_s: float | None, say: Callable[[str], None] = lambda words: None
) -> Receipt:
    began_s = time.monotonic()
    before = look(state_dir)
    settings = _settings(state_dir)
    receipt = Receipt(
        node_id="" if settings is None else settings.node_id,
        coordinator="" if settings is None else settings.coordinator,
    )
    traces = Traces() if settings is None else traces_of(settings)
    credential = _credential(settings)  # an agent that leaves takes it along
    receipt.coordinator_told = _leave(state_dir, notice_s, settings, say)
    if settings is not None and credential and not receipt.coordinator_told:
        receipt.coordinator_told = say_goodbye(settings.coordinator, credential)
    if settings is not None and settings.keeps is not None:
        receipt.shared.append(f"{settings.keeps.directory}: checkpoints of other people's jobs, lent to them")
    if settings is not None:
        receipt.left_behind += remove_traces(settings)
        _compare_traces(receipt, traces, traces_of(settings))
    for service in installed(state_dir):
        try:
            uninstall(service)
        except ServiceTrouble as trouble_there:
            receipt.left_behind.append(str(trouble_there))
    _remove_files(state_dir, receipt)
    _compare(receipt, before, look(state_dir))
    _remove_program(receipt)
    receipt.took_s = time.monotonic() - began_s
    return receipt


def _leave(
    state_dir: Path, notice_s: float | None, settings: Settings | None, say: Callable[[str], None]
) -> bool:
    """Whether its agent has told the campus."""
    try:
        answer = owner_client.leave(state_dir, notice_s)
    except owner_client.Refused:
        say("The agent has left already, or is about to.")
    except owner_client.OwnerTrouble as trouble:
        if settings is not None:
            what = str(trouble).partition("\n")[0].partition(";")[0]
            say(f"{what.removesuffix('.')}. Guests are ended without a notice: nobody is there to save them.")
        _end_all(state_dir)
        return False
    else:
        say(str(answer["message"]))
    usual_s = 0.0 if settings is None else settings.terms.notice_s
    until_s = time.monotonic() + (usual_s if notice_s is None else notice_s) + GOODBYE_MARGIN_S
    while _agent_pid(state_dir) is not None and time.monotonic() < until_s:
        time.sleep(WAIT_S)
    if _agent_pid(state_dir) is not None:
        say("The agent did not end in time; it is ended, and its guests with it.")
        _end_all(state_dir)
    told = read_json(str(state_dir / FAREWELL_FILE)) or {}
    return bool(told.get("coordinator_told"))


def _agent_pid(state_dir: Path) -> int | None:
    """The agent that holds the lock; None where nobody does."""
    try:
        lock = os.open(state_dir / LOCK_FILE, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        text = os.pread(lock, 32, 0).decode(errors="replace").strip()
        return int(text) if text.isdecimal() else None
    finally:
        os.close(lock)


def _end_all(state_dir: Path) -> None:
    """Guests first: without its agent none of them starts anew, and with it the kill stands against that."""
    for home in _homes(state_dir):
        kill_all(home)
    for signum in (signal.SIGTERM, signal.SIGKILL):
        until_s = time.monotonic() + TERM_S
        while (pid := _agent_pid(state_dir)) is not None and time.monotonic() < until_s:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signum)
            time.sleep(WAIT_S)


def _remove_files(state_dir: Path, receipt: Receipt) -> None:
    if _mounts_under(state_dir):
        receipt.left_behind.append(f"{state_dir}: something is still mounted in it, so it was not touched")
        return
    for entry in _entries(state_dir):
        if entry.name not in OURS:
            receipt.left_behind.append(f"{entry}: {NOT_OURS}")
        elif entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                entry.unlink()
    with contextlib.suppress(OSError):
        state_dir.rmdir()


def _compare_traces(receipt: Receipt, before: Traces, after: Traces) -> None:
    for name in ("containers", "images"):
        had, has = getattr(before, name), getattr(after, name)
        receipt.removed[name] = [item for item in had if item not in has]
        receipt.left_behind += [f"{name}: {item}" for item in has]
    if after.host_image:
        receipt.shared.append(f"{after.host_image}: a container of somebody else's uses it")
    elif before.host_image:
        receipt.removed["images"].append(before.host_image)
    if after.trouble and after.trouble not in receipt.left_behind:
        receipt.left_behind.append(after.trouble)


def _compare(receipt: Receipt, before: Belongings, after: Belongings) -> None:
    alive = _still_alive(before.processes)
    for name in ("guests", "cgroups", "mounts", "files", "units"):
        had, has = getattr(before, name), getattr(after, name)
        still = {item for item in had if item in has or (name == "cgroups" and os.path.isdir(item))}
        receipt.removed[name] = [item for item in had if item not in still]
        receipt.left_behind += [f"{name}: {item}" for item in sorted(still)]
    receipt.removed["processes"] = [str(process[0]) for process in before.processes if process not in alive]
    receipt.left_behind += [f"processes: {pid}" for pid, _ in alive]
    receipt.freed_bytes = max(0, before.size_bytes - after.size_bytes)


def _still_alive(processes: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    """An agent that has given up its lock takes a moment more to be gone."""
    until_s = time.monotonic() + TERM_S
    while alive := [process for process in processes if start_ticks(process[0]) == process[1]]:
        if time.monotonic() > until_s:
            break
        time.sleep(WAIT_S)
    return alive


def _remove_program(receipt: Receipt) -> None:
    """The program itself, where the campus's script has put it here: last, since it is what runs now."""
    home = Path(sys.prefix).parent
    if Path(sys.prefix).name != "venv" or not (home / INSTALLED_MARK).exists():
        return
    links = [folder / "gpunion" for folder in LINK_DIRS]
    for link in links:
        if link.is_symlink() and link.readlink() == Path(sys.prefix, "bin", "gpunion"):
            with contextlib.suppress(OSError):
                link.unlink()
            _note(receipt, link)
    shutil.rmtree(home, ignore_errors=True)
    _note(receipt, home)


def _note(receipt: Receipt, path: Path) -> None:
    still = path.exists() or path.is_symlink()
    (receipt.left_behind if still else receipt.removed.setdefault("program", [])).append(str(path))


def _homes(state_dir: Path) -> list[Path]:
    """Where guests live: an agent that tries whether it can dump guests keeps a small one apart."""
    return [home for home in (state_dir, state_dir / PROBE_HOME) if home.is_dir()]


def _settings(state_dir: Path) -> Settings | None:
    try:
        return load_settings(state_dir, {})
    except SettingsTrouble:
        return None


def _credential(settings: Settings | None) -> str:
    try:
        return "" if settings is None else settings.credential()
    except SettingsTrouble:
        return ""


def _entries(state_dir: Path) -> list[Path]:
    try:
        return sorted(state_dir.iterdir())
    except OSError:
        return []


def _size_bytes(path: Path) -> int:
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(
        os.lstat(os.path.join(folder, name)).st_blocks * 512
        for folder, _, names in os.walk(path)
        for name in names
        if os.path.lexists(os.path.join(folder, name))
    )


def _mounts_under(state_dir: Path) -> list[str]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        points = [line.split(" ")[4] for line in file]
    inside = f"{state_dir}/"
    return sorted(point for point in points if point.startswith(inside))
