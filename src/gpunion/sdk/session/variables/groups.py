"""Which variables belong together: a model and its optimizer share tensors, and have to be one stream.

Written apart, the optimizer would come back driving a copy of the model that nobody uses.
"""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gpunion.sdk.session.variables.packing import Namespace, Packer

# Equal ones may be one object or two: that nobody can tell, or must not rely on.
WITHOUT_IDENTITY = (
    str,
    bytes,
    int,
    float,
    complex,
    types.ModuleType,
    types.BuiltinFunctionType,
    types.CodeType,
    types.CellType,
)

OWN_WAY = 2  # to be packed: nobody knows how long that takes
PLAIN = frozenset({bool, int, float, complex, str, bytes, bytearray})
CONTAINERS = frozenset({list, dict, tuple, set, frozenset})


@dataclass(frozen=True, slots=True)
class Look:
    """What packing a variable would write, and what it reaches.

    The things are kept, not only their ids: an id that is given out again would look like sharing."""

    size_bytes: int
    reached: Mapping[int, object]


def look_at(value: object, namespace: Namespace, go_on: Callable[[], None] = lambda: None) -> Look:
    """Packs it into nothing; arrays are not copied. Raises what packing it raises, and what `go_on` does: it
    is called again and again meanwhile."""
    counting = _Counting(go_on)
    packer = Packer(counting, namespace, counting.leave_outside)
    packer.dump(value)
    go_on()
    reached = {
        id(thing): thing for _, thing in packer.memo.copy().values() if _has_identity(thing, namespace)
    }
    return Look(counting.size_bytes, reached)


def likely_cost(value: object) -> tuple[int, int]:
    """Orders values by what packing them may take, without running any code of theirs: plain ones, then
    containers by their length, then all that has a way of its own to be packed."""
    if value is None or type(value) in PLAIN:
        return 0, sys.getsizeof(value)
    if type(value) in CONTAINERS:
        return 1, len(value)  # type: ignore[arg-type]
    if isinstance(value, type | types.FunctionType):
        return 1, 1
    return OWN_WAY, 0


def grouped(looks: Mapping[str, Look]) -> list[list[str]]:
    """The smallest first, should the time run out; names in their own order."""
    belongs = {name: name for name in looks}
    first_of: dict[int, str] = {}
    for name, look in looks.items():
        for other in {first_of[thing] for thing in look.reached if thing in first_of}:
            belongs[_root(belongs, other)] = _root(belongs, name)
        for thing in look.reached:
            first_of.setdefault(thing, name)
    groups: dict[str, list[str]] = {}
    for name in looks:
        groups.setdefault(_root(belongs, name), []).append(name)
    return sorted(groups.values(), key=lambda names: size_bytes(names, looks))


def size_bytes(names: Iterable[str], looks: Mapping[str, Look]) -> int:
    return sum(looks[name].size_bytes for name in names)


class _Counting:
    def __init__(self, go_on: Callable[[], None]) -> None:
        self.size_bytes = 0
        self._go_on = go_on

    def write(self, data: bytes | memoryview) -> int:
        self._go_on()
        count = data.nbytes if isinstance(data, memoryview) else len(data)
        self.size_bytes += count
        return count

    def leave_outside(self, buffer: pickle.PickleBuffer) -> None:
        self.size_bytes += buffer.raw().nbytes


def _root(belongs: dict[str, str], name: str) -> str:
    while belongs[name] != name:
        belongs[name] = belongs[belongs[name]]
        name = belongs[name]
    return name


def _has_identity(thing: object, namespace: Namespace) -> bool:
    if isinstance(thing, type | types.FunctionType):
        return thing.__module__ == "__main__"
    if isinstance(thing, WITHOUT_IDENTITY) or thing is namespace:
        return False
    if type(thing) is tuple and not thing:
        return False
    return type(thing).__name__ != "dtype"  # of numpy: one for all arrays of its kind
