"""Packs values of a notebook with cloudpickle, and refuses what would come back as something else.

cloudpickle and not dill: dill's pickler is Python throughout, and gives a whole session up for one variable.
"""

from __future__ import annotations

import io
import pickle
import types
from collections.abc import Callable
from typing import Any, Protocol

import cloudpickle

Namespace = dict[str, Any]

NOTEBOOK = "notebook"  # how the notebook's own globals are named in a stream
# cloudpickle would save the text of a file, and some of the others as an empty shell.
REFUSED = (
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    types.FrameType,
    io.IOBase,
)


class Sink(Protocol):
    def write(self, data: Any, /) -> Any: ...


class Packer(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """One stream: what is reached twice in it is one object again when it is read."""

    def __init__(
        self, sink: Sink, namespace: Namespace, outside: Callable[[pickle.PickleBuffer], object] | None = None
    ) -> None:
        super().__init__(sink, protocol=5, buffer_callback=outside)
        self._namespace = namespace

    def persistent_id(self, thing: object) -> str | None:
        return NOTEBOOK if thing is self._namespace else None

    def reducer_override(self, thing: object) -> Any:
        if isinstance(thing, REFUSED):
            raise pickle.PicklingError(f"{_article(type(thing).__name__)} cannot be saved")
        return super().reducer_override(thing)

    def _dynamic_function_reduce(self, function: types.FunctionType) -> Any:
        """A function of the notebook goes on with the notebook's globals: with a copy of those it uses, as
        cloudpickle has it, a variable set later would not reach it."""
        make, arguments, state, *rest = super()._dynamic_function_reduce(function)
        if function.__globals__ is self._namespace:
            arguments = (arguments[0], self._namespace, *arguments[2:])
            state = (state[0], state[1] | {"__globals__": {}})
        return (make, arguments, state, *rest)


class Unpacker(pickle.Unpickler):
    def __init__(self, file: Any, namespace: Namespace) -> None:
        super().__init__(file)
        self._namespace = namespace

    def persistent_load(self, name: Any) -> Namespace:
        if name != NOTEBOOK:
            raise pickle.UnpicklingError("it names something that no snapshot has")
        return self._namespace


def _article(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"
