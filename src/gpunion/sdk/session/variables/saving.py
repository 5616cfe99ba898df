"""Saves what can be saved of a namespace, and says of the rest why it cannot."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from gpunion.sdk.session.variables.groups import OWN_WAY, Look, grouped, likely_cost, look_at, size_bytes
from gpunion.sdk.session.variables.packing import Namespace, Packer
from gpunion.sdk.session.variables.snapshot import (
    ALL,
    About,
    Group,
    Lacking,
    in_words,
    read_about,
    write_about,
)

NO_TIME = "no time was left to save it"
# Whatever is saved, the guest's disk keeps so much: a guest that fills it is ended.
ROOM_LEFT_BYTES = 64 * 1024 * 1024
LARGE_BYTES = 1024 * 1024
TELL_EVERY_S = 0.5
LOOK_SHARE_LEFT = 0.4  # of the time, for writing
SHARED_FILE = "groups"
FILES_MAX = 200  # of one kernel: they are named in a message that has a limit
# What IPython puts there of its own: outputs, inputs and their numbers.
OWN_OF_IPYTHON = re.compile(r"^_(_|__|\d+|i\d*|ii|iii|dh|ih|oh|exit_code|sh)?$|^__\w+__$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """`older`: an earlier snapshot, from which what cannot be written in time is taken over."""

    into: Path
    limit_s: float
    older: Path | None = None
    hidden: Mapping[str, object] = field(default_factory=dict)  # not the user's
    beside: bool = False  # a cell goes on meanwhile


def save(namespace: Namespace, order: Order) -> About:
    """Blocks the kernel for so long. OSError: nothing of it counts."""
    return _Saving(namespace, order).run()


def variables_of(namespace: Namespace, hidden: Mapping[str, object]) -> dict[str, object]:
    return {
        name: value
        for name, value in list(namespace.items())
        if not OWN_OF_IPYTHON.match(name) and not (name in hidden and value is hidden[name])
    }


class _Saving:
    def __init__(self, namespace: Namespace, order: Order) -> None:
        self._namespace, self._order = namespace, order
        self._began_s = time.monotonic()
        self._unsaved: dict[str, str] = {}
        self._groups: list[Group] = []
        self._files = 0
        self._early: set[str] = set()  # written by themselves as soon as they were looked at
        self._reached: set[int] = set()
        self._told_s = float("-inf")

    def run(self) -> About:
        values = variables_of(self._namespace, self._order.hidden)
        modules = {name: value.__name__ for name, value in values.items() if isinstance(value, ModuleType)}
        looks: dict[str, Look] = {}
        own = [name for name in values if name not in modules]
        for name in sorted(own, key=lambda name: likely_cost(values[name])):
            if likely_cost(values[name])[0] == OWN_WAY:
                self._tell_meanwhile(own, modules)
            self._attempt((name,), partial(self._look, looks, name, values), self._left_to_look_s)
        seen = {name: looks[name] for name in values if name in looks}
        for names in grouped(seen):
            if (name := names[0]) in self._early and len(names) == 1:
                continue
            self._tell_meanwhile(own, modules)
            self._attempt(tuple(names), partial(self._write, names, values, looks), self._left_s)
        return self._tell(self._unsaved, modules)

    def _tell_meanwhile(self, own: list[str], modules: Mapping[str, str]) -> None:
        """The next one may never end, and what is there already is to count all the same."""
        if time.monotonic() < self._told_s + TELL_EVERY_S:
            return
        self._told_s = time.monotonic()
        there = {name for group in self._groups for name in group.names}
        missing = [name for name in own if name not in there and name not in self._unsaved]
        with contextlib.suppress(OSError):
            self._tell(self._unsaved | dict.fromkeys(missing, NO_TIME), modules)

    def _tell(self, unsaved: Mapping[str, str], modules: Mapping[str, str]) -> About:
        older, why_not = self._taken_over(unsaved)
        if self._order.beside:
            why_not[ALL] = f"taken at {_clock(time.time())} while a cell ran, which is lost"
        about = About(
            saved_at=time.time(),
            python=sys.version.split()[0],
            modules=modules,
            groups=(*self._groups, *older),
            unsaved=tuple(Lacking(name, why) for name, why in why_not.items()),
            sys_path=tuple(sys.path),
            directory=os.getcwd(),
        )
        write_about(self._order.into, about)
        return about

    def _attempt(self, names: tuple[str, ...], work: Callable[[], None], left_s: Callable[[], float]) -> None:
        """A variable may raise whatever it likes. Only who interrupts the kernel ends the whole."""
        missed = [name for name in names if name not in self._early]  # of the others there is a state of now
        if left_s() <= 0:
            self._unsaved |= dict.fromkeys(missed, NO_TIME)
            return
        try:
            work()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._unsaved |= dict.fromkeys(missed, in_words(error))

    def _look(self, looks: dict[str, Look], name: str, values: Mapping[str, object]) -> None:
        look = look_at(values[name], self._namespace, self._go_on_looking)
        looks[name] = look
        # At once, if it is small: a look further on may take all the time, and cannot always be cut short.
        # Should it turn out to share something it is written again with that, and the later one counts.
        if look.size_bytes < LARGE_BYTES and not look.reached.keys() & self._reached:
            with contextlib.suppress(Exception):  # it is tried once more behind the others
                self._write([name], values, looks)
                self._early.add(name)
        self._reached |= look.reached.keys()

    def _go_on_looking(self) -> None:
        if self._left_to_look_s() <= 0:
            raise _Late(NO_TIME)

    def _write(self, names: list[str], values: Mapping[str, object], looks: Mapping[str, Look]) -> None:
        about_bytes = size_bytes(names, looks)
        if about_bytes + ROOM_LEFT_BYTES > shutil.disk_usage(self._order.into).free:
            raise OSError(f"its {about_bytes} bytes have no room on the disk")
        path = self._order.into / self._file_for(about_bytes)
        with open(path, "ab") as file:
            at = file.tell()
            try:
                packer = Packer(_InTime(file, self._left_s), self._namespace)
                packer.dump({name: values[name] for name in names})
            except BaseException:
                file.flush()
                file.truncate(at)
                raise
            written = file.tell() - at
        group = Group(file=path.name, at=at, names=tuple(names), size_bytes=written, saved_at=time.time())
        self._groups = [one for one in self._groups if not set(one.names) <= set(names)]
        self._groups.append(group)

    def _file_for(self, size_bytes: int) -> str:
        """Large groups have files of their own, so that those which stay the same are not sent again."""
        if size_bytes < LARGE_BYTES or self._files >= FILES_MAX:
            return SHARED_FILE
        self._files += 1
        return f"group-{self._files}"

    def _taken_over(self, unsaved: Mapping[str, str]) -> tuple[list[Group], dict[str, str]]:
        """An older state of a variable is worth more than none, if it is told."""
        groups: list[Group] = []
        told = dict(unsaved)
        late = {name for name, why in told.items() if why == NO_TIME}
        older = None if self._order.older is None or not late else read_about(self._order.older)
        if older is None or self._order.older is None:
            return groups, told
        for group in older.groups:
            if not late & set(group.names):
                continue
            name = f"before-{group.file}"
            with contextlib.suppress(OSError):
                if not (self._order.into / name).exists():
                    os.link(self._order.older / group.file, self._order.into / name)
                groups.append(replace(group, file=name))
                why = f"as it was at {_clock(group.saved_at)}: no time was left to save it again"
                told |= dict.fromkeys(late & set(group.names), why)
        return groups, told

    def _left_to_look_s(self) -> float:
        """What was looked at has to be written too."""
        return self._left_s() - LOOK_SHARE_LEFT * self._order.limit_s

    def _left_s(self) -> float:
        if not self._order.into.exists():
            return 0.0  # whoever wanted it has given it up
        return self._order.limit_s - (time.monotonic() - self._began_s)


class _InTime:
    """A file that is given up in the middle of a group for which the time does not last."""

    def __init__(self, file: BinaryIO, left_s: Callable[[], float]) -> None:
        self._file, self._left_s = file, left_s

    def write(self, data: bytes) -> int:
        if self._left_s() <= 0:
            raise _Late(NO_TIME)
        return self._file.write(data)


class _Late(Exception):
    pass


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S UTC", time.gmtime(at))
