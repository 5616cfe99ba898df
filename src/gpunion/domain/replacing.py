"""A changed copy of a record: what `dataclasses.replace` does, in half the time.

Every decision makes several. The library looks each field up and runs `__init__` again; here the values are
read in one go and written straight into the slots. Type checkers see the library's own.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import replace as replace
else:
    import dataclasses
    from operator import attrgetter

    def replace(record, /, **changes):
        kind = type(record)
        plan = _plan(kind)
        if plan is None:
            return dataclasses.replace(record, **changes)
        read, writers, write_of = plan
        copy = object.__new__(kind)
        for write, value in zip(writers, read(record)):  # noqa: B905  (both are made from one list of names)
            write(copy, value)
        for name, value in changes.items():
            if name not in write_of:
                raise TypeError(f"{kind.__name__} has no field {name!r}")
            write_of[name](copy, value)
        return copy

    @functools.cache
    def _plan(kind):
        """How to read all fields of a kind and how to write each; None where the library's way is needed."""
        names = [field.name for field in dataclasses.fields(kind)]
        if hasattr(kind, "__post_init__") or "__slots__" not in vars(kind) or len(names) < 2:
            return None
        write_of = {name: vars(kind)[name].__set__ for name in names}
        return attrgetter(*names), tuple(write_of.values()), write_of
