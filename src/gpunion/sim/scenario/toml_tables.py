"""Reading TOML tables strictly: an unknown key is an error that says what was probably meant."""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")


class ScenarioError(Exception):
    """The file cannot be used as it is; the message says where and what to do."""


class Table:
    """One table of a scenario file. Every key must be taken; `done` complains about the rest."""

    def __init__(self, where: str, values: object, stream: random.Random | None = None) -> None:
        if not isinstance(values, dict):
            raise ScenarioError(f"{where}: expected a table, found {values!r}")
        self.where = where
        self._values: dict[str, Any] = dict(values)
        self._known: set[str] = set()
        self._stream = stream

    def number(self, key: str, default: float | None = None) -> float:
        """A number, or [least, most] to draw from."""
        value = self._take(key, default)
        if isinstance(value, list):
            value = self._draw(key, value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ScenarioError(f"{self.where}.{key}: expected a number, found {value!r}")
        return float(value)

    def whole(self, key: str, default: int | None = None) -> int:
        return round(self.number(key, default))

    def optional(self, key: str) -> float | None:
        if key in self._values:
            return self.number(key)
        self._known.add(key)
        return None

    def text(self, key: str, default: str | None = None) -> str:
        value = self._take(key, default)
        if not isinstance(value, str):
            raise ScenarioError(f"{self.where}.{key}: expected text, found {value!r}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._take(key, default)
        if not isinstance(value, bool):
            raise ScenarioError(f"{self.where}.{key}: expected true or false, found {value!r}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(str(value) for value in self._list(key))

    def tables(self, key: str) -> list[Table]:
        return [
            Table(f"{self.where}.{key}[{index}]" if self.where else f"{key}[{index}]", values, self._stream)
            for index, values in enumerate(self._list(key))
        ]

    def table(self, key: str) -> Table:
        where = f"{self.where}.{key}" if self.where else key
        return Table(where, self._take(key, {}), self._stream)

    def fill(self, kind: type[T], **fixed: object) -> T:
        """A value with its plain fields from here; what is not written keeps its default."""
        names = [field.name for field in fields(kind) if field.name not in fixed]  # type: ignore[arg-type]
        given = {name: self._values[name] for name in names if name in self._values}
        self._known.update(names)
        self.done()
        for name, value in given.items():
            if isinstance(value, list):
                given[name] = tuple(value)
            elif isinstance(value, int) and not isinstance(value, bool):
                given[name] = value
        try:
            return kind(**given, **fixed)
        except TypeError as error:
            raise ScenarioError(f"{self.where}: {error}") from None

    def drawing_from(self, stream: random.Random) -> Table:
        return Table(self.where, self._values, stream)

    def has(self, key: str) -> bool:
        self._known.add(key)
        return key in self._values

    def done(self) -> None:
        for key in self._values:
            if key not in self._known:
                raise ScenarioError(unknown_key(self.where, key, self._known))

    def _take(self, key: str, default: object) -> Any:
        self._known.add(key)
        value = self._values.get(key, default)
        if value is None:
            near = difflib.get_close_matches(key, sorted(set(self._values) - self._known), n=1)
            hint = f"; you wrote '{near[0]}', did you mean '{key}'?" if near else ""
            raise ScenarioError(f"{self.where or 'the file'}: '{key}' is missing{hint}")
        return value

    def _list(self, key: str) -> list[Any]:
        value = self._take(key, [])
        if not isinstance(value, list):
            raise ScenarioError(f"{self.where}.{key}: expected a list, found {value!r}")
        return value

    def _draw(self, key: str, bounds: list[Any]) -> float:
        numbers = [value for value in bounds if isinstance(value, int | float)]
        if self._stream is None or len(bounds) != 2 or len(numbers) != 2 or numbers[0] > numbers[1]:
            raise ScenarioError(f"{self.where}.{key}: expected a number or [least, most], found {bounds!r}")
        return self._stream.uniform(numbers[0], numbers[1])


def unknown_key(where: str, key: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, sorted(known), n=1)
    hint = f"; did you mean '{near[0]}'?" if near else f"; known are {', '.join(sorted(known))}"
    return f"{where or 'the file'}: unknown key '{key}'{hint}"


def one_of(where: str, value: str, known: Mapping[str, object] | Iterable[str]) -> str:
    if value not in known:
        near = difflib.get_close_matches(value, sorted(known), n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(sorted(known))}"
        raise ScenarioError(f"{where}: '{value}' is not known; {hint}")
    return value
