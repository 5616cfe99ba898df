"""`dataclass` for records that are made by the million: what the library makes, filled in half the time.

A frozen record of the library writes each of its fields with a call of its own, because plain assignment is
what it forbids. Here a record is filled while it is still of an open twin: a class with the same fields in
the same places of memory that forbids nothing. Then it gets its own class and is as frozen as any other.
Nobody else has seen it before. Type checkers see the library's own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(**options):
        return lambda described: _made_fast(dataclasses.dataclass(**options)(described))


@functools.cache
def open_twin(kind: type) -> type | None:
    """Instances of a record and of its twin may change their class for the other; None where they may not."""
    names = tuple(field.name for field in dataclasses.fields(kind) if field.init)
    plain = kind.__bases__ == (object,) and not hasattr(kind, "__post_init__")
    if not plain or vars(kind).get("__slots__") != names or not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return None
    return type(f"Open{kind.__name__}", (), {"__slots__": names})


def compiled(source: str, name: str, known: dict[str, Any]) -> Any:
    """The function `name` of the source, which sees what is `known` and nothing else."""
    scope = dict(known)
    exec(source, scope)
    return scope[name]


def maker(kind: Callable[P, T]) -> Callable[P, T]:
    """Makes the same record as calling its class does, in half the time again: a function is called with
    names far more quickly than a class. For the few kinds that every save of every guest needs."""
    twin = open_twin(kind) if isinstance(kind, type) else None
    if twin is None:
        return kind
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    lines = [f"    self.{field.name} = {_value_of(field)}" for field in fields]
    source = [
        f"def make({_signature(fields)}):",
        "    self = _twin()",
        *lines,
        "    self.__class__ = _kind",
        "    return self",
    ]
    made: Callable[P, T] = compiled("\n".join(source), "make", _known(kind, twin))
    return made


def _made_fast(kind: Any) -> Any:
    twin, slow = open_twin(kind), kind.__init__
    if twin is None:
        return kind
    fields = dataclasses.fields(kind)
    lines = [f"    self.{field.name} = {_value_of(field)}" for field in fields]
    begin = [f"def __init__(self, {_signature(fields)}):", "    _become(self, _twin)"]
    source = [*begin, *lines, "    self.__class__ = _kind"]
    fast = compiled("\n".join(source), "__init__", _known(kind, twin))
    fast.__qualname__, fast.__module__ = slow.__qualname__, kind.__module__
    fast.__annotations__ = slow.__annotations__
    kind.__init__ = fast
    kind.__init_subclass__ = classmethod(_no_heirs)
    return kind


def _signature(fields: tuple[dataclasses.Field[Any], ...]) -> str:
    parameters = [_parameter(field) for field in fields if not field.kw_only]
    named = [_parameter(field) for field in fields if field.kw_only]
    return ", ".join([*parameters, *(["*", *named] if named else [])])


def _known(kind: Any, twin: type) -> dict[str, Any]:
    """With a line in front of their names, which no field has: a field may be called `kind`."""
    fields = dataclasses.fields(kind)
    known = {"_kind": kind, "_twin": twin, "_not_given": _NOT_GIVEN, "_become": _become}
    known |= {f"_default_{field.name}": field.default for field in fields}
    return known | {f"_make_{field.name}": field.default_factory for field in fields}


_NOT_GIVEN = object()
_become = vars(object)["__class__"].__set__


def _no_heirs(kind: type) -> None:
    raise TypeError(f"{kind.__name__}: a record has no subclasses, they would become what they inherit from")


def _parameter(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f"{field.name}=_default_{field.name}"
    return field.name if field.default_factory is dataclasses.MISSING else f"{field.name}=_not_given"


def _value_of(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is dataclasses.MISSING:
        return field.name
    return f"_make_{field.name}() if {field.name} is _not_given else {field.name}"
