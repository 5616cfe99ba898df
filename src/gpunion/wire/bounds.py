"""Every value that crosses a boundary, held against the ranges of its fields: one walker a type, made once.

A walker returns the value itself where nothing had to be changed, so looking costs little.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

from gpunion.domain.protocol.frames import CoordinatorFrame, FromAgent
from gpunion.limits import OutOfRange
from gpunion.wire import ranges
from gpunion.wire.rules import Between, Way, way_of

Walk = Callable[[Any], Any]


class Walkers(dict[type, Walk]):
    """By type, made when first asked for."""

    def __init__(self, way: Way) -> None:
        super().__init__()
        self._way = way

    def __missing__(self, kind: type) -> Walk:
        self[kind] = walk = _walker(kind, self._way)
        return walk


_WALKERS = {way: Walkers(way) for way in Way}
CHECK, HEAR, TELL = (_WALKERS[way] for way in Way)


def walkers(way: Way) -> Walkers:
    return _WALKERS[way]


def _walker(kind: type, way: Way) -> Walk:
    """For a dataclass: OutOfRange names the field that is at fault, by the type it stands in."""
    hints = get_type_hints(kind)
    stored = kind.__name__ not in arriving()
    parts: dict[str, Walk] = {}
    for field in dataclasses.fields(kind):
        walk = _of(hints[field.name], _Place(kind.__name__, field.name, stored), way)
        if walk is not None:
            parts[field.name] = walk
    fits = _fits(parts)

    def walk_fields(value: Any) -> Any:
        try:
            if fits(value):
                return value
        except (OutOfRange, TypeError):
            pass  # looked at again, field by field, for the name of the one at fault
        changes = {name: _looked_at(kind, name, walk, value) for name, walk in parts.items()}
        return dataclasses.replace(value, **changes)

    return walk_fields


def _fits(parts: dict[str, Walk]) -> Callable[[Any], bool]:
    """Whether every part is left as it is: one expression, since every frame and every row is asked."""
    tests, known = ["True"], dict[str, Any]()
    for number, (name, walk) in enumerate(parts.items()):
        if isinstance(walk, Between):
            tests.append(f"{walk.least!r} <= value.{name} <= {walk.most!r}")
        else:
            known[f"walk{number}"] = walk
            tests.append(f"walk{number}(part := value.{name}) is part")
    return eval(f"lambda value: {' and '.join(tests)}", known)  # type: ignore[no-any-return]


def _looked_at(kind: type, name: str, walk: Walk, value: Any) -> Any:
    try:
        return walk(getattr(value, name))
    except OutOfRange as error:
        raise _named(error, f"{kind.__name__}.{name}") from None
    except TypeError as error:
        raise _named(OutOfRange(str(error)), f"{kind.__name__}.{name}") from error


@cache
def arriving() -> frozenset[str]:
    """The types that can be part of a frame."""
    found: set[str] = set()
    for member in (*get_args(FromAgent), *get_args(CoordinatorFrame)):
        _collect(member, found)
    return frozenset(found)


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    owner: str
    field: str
    stored: bool


def _collect(hint: Any, found: set[str]) -> None:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if hint.__name__ not in found:
            found.add(hint.__name__)
            for inner in get_type_hints(hint).values():
                _collect(inner, found)
    else:
        for inner in get_args(hint):
            _collect(inner, found)


def _of(hint: Any, place: _Place, way: Way) -> Walk | None:
    """None where there is nothing to look at: truths, words of a closed list."""
    if isinstance(hint, NewType):
        return way_of(ranges.ID, way)  # type: ignore[no-any-return]
    if hint in (int, float, str):
        rule = ranges.of_field(place.owner, place.field, hint, stored=place.stored)
        return way_of(rule, way)  # type: ignore[no-any-return]
    if hint is bool or hint is NoneType or (isinstance(hint, type) and issubclass(hint, Enum)):
        return None
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _WALKERS[way][hint]
    if get_origin(hint) is tuple:
        return _of_tuple(get_args(hint), place, way)
    if get_origin(hint) in (UnionType, Union):
        return _of_union(get_args(hint), place, way)
    raise TypeError(f"{place.owner}.{place.field}: nothing says how a {hint} is looked at")


def _of_tuple(parts: tuple[Any, ...], place: _Place, way: Way) -> Walk:
    if parts[1:] != (...,):
        return _of_row([_of(part, place, way) for part in parts])
    bound = way_of(ranges.of_list(place.owner, place.field, stored=place.stored), way)
    each = _of(parts[0], place, way)

    def walk_items(items: Any) -> Any:
        if not items:
            return items
        kept = bound(items)
        if each is not None:
            for item in kept:
                if each(item) is not item:
                    return tuple(map(each, kept))
        return kept

    return walk_items


def _of_row(walks: list[Walk | None]) -> Walk:
    def walk_row(row: Any) -> Any:
        return tuple(part if walk is None else walk(part) for part, walk in zip(row, walks, strict=True))

    return walk_row


def _of_union(members: tuple[Any, ...], place: _Place, way: Way) -> Walk | None:
    walks = {_class_of(member): _of(member, place, way) for member in members if member is not NoneType}
    if not any(walks.values()):
        return None
    if len(walks) == 1:
        (only,) = walks.values()
        assert only is not None
        return lambda value: value if value is None else only(value)

    def walk_member(value: Any) -> Any:
        if value is None and NoneType in members:
            return value
        try:
            walk = walks[value.__class__]
        except KeyError:
            raise TypeError(f"a {type(value).__name__} has no place there") from None
        return value if walk is None else walk(value)

    return walk_member


def _class_of(member: Any) -> type:
    return str if isinstance(member, NewType) else member


class _Named(OutOfRange):
    """Says already which field it is: the innermost says most."""


def _named(error: OutOfRange, name: str) -> OutOfRange:
    return error if isinstance(error, _Named) else _Named(f"{name}: {error}")
