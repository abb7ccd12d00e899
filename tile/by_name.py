"""Functions that pickle by module and qualified name, as Python's own do.

A decorated function stands under the name of the function that it holds, so pickle cannot take the
inner one by name. An object that derives from `ByName` is taken by the name under which its module
has it, or has a wrapper of it (`kernel` of a tuner). cloudpickle, which Dask and Ray use, takes by
value what `__main__` or a function defines.
"""

from __future__ import annotations

import functools
import importlib
import operator
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex

Reduction = tuple[Callable[..., Any], tuple[Any, ...]]


class ByName:
    """Base of objects that pickle by name; `copy` and `deepcopy` give the object itself."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Reduction:
        place = _place(self)
        by_value = self.by_value()
        if by_value is not None and _for_cloudpickle() and (place is None or _is_main(place)):
            return by_value[1]
        if place is not None:
            return named, place
        if by_value is not None and by_value[0]:
            return by_value[1]
        raise pickle.PicklingError(_unnamed(self))

    def by_value(self) -> tuple[bool, Reduction] | None:
        """Return a way to make an equal object, if any; plain pickle can take it if True."""
        return None

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


def named(module: str, name: str, depth: int) -> Any:
    """The object that a module has under a name, or what is `depth` wrappers inside of it."""
    try:
        held = operator.attrgetter(name)(importlib.import_module(module))
        return functools.reduce(lambda outer, _: outer.kernel, range(depth), held)
    except AttributeError as error:
        raise pickle.UnpicklingError(
            f"`{name}` was pickled by name, and module {module!r} has no such kernel or function "
            "in this process; define it in a file that both processes import"
        ) from error


def _place(value: Any) -> tuple[str, str, int] | None:
    """The arguments of `named` that give `value`."""
    module = sys.modules.get(value.__module__)
    if module is None:
        return None
    for name in _names(module, value):
        try:
            held = operator.attrgetter(name)(module)
        except AttributeError:
            continue
        for depth, inner in enumerate(_layers(held)):
            if inner is value:
                return value.__module__, name, depth
    return None


def _names(module: Any, value: Any) -> Iterator[str]:
    """The names to look under: its own first, then all others of the module."""
    yield value.__qualname__
    yield from [name for name, held in list(vars(module).items()) if isinstance(held, ByName)]


def _layers(held: Any) -> Iterator[Any]:
    while isinstance(held, ByName):
        yield held
        held = getattr(held, "kernel", None)


def _is_main(place: tuple[str, str, int]) -> bool:
    return place[0] == "__main__"


def _for_cloudpickle() -> bool:
    """Return True while cloudpickle pickles, under its own name or as a part of other packages.

    Nothing that pickle passes on tells; but the Python function nearest to here is its `dump`.
    """
    caller = sys._getframe(2)
    return "cloudpickle" in caller.f_globals.get("__name__", "")


def _unnamed(value: Any) -> str:
    name = value.__qualname__
    outer, inside, _ = name.rpartition(".<locals>.")
    why = (
        f"it is defined inside of `{outer}`"
        if inside
        else f"module {value.__module__!r} has something else under this name, or nothing"
    )
    return (
        f"`{name}` cannot be pickled: other processes find it by module and name, and {why}; "
        "define it at the top level of a module"
    )
