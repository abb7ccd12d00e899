"""Objects that pickle by module and qualified name, as Python's functions do.

A decorator binds its result to the name of the function that it wraps, so pickle cannot find the
inner function by that name. An object that derives from `PickledByName` pickles as the name under
which its module has it, or has a wrapper of it (`fn` of a tuner). cloudpickle, which Dask and
Ray use, pickles definitions of `__main__` and of function bodies by value.
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


class PickledByName:
    """Base of objects that pickle by name; `copy` and `deepcopy` give the object itself.

    `deepcopy` copies an object that no name leads to any more.
    """

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Reduction:
        nameless = self.nameless()
        if nameless is not None:
            return nameless
        path = _path(self)
        by_value = self.by_value()
        if by_value is not None and _for_cloudpickle() and (path is None or path[0] == "__main__"):
            return by_value[1]
        if path is not None:
            return load_by_name, path
        if by_value is not None and by_value[0]:
            return by_value[1]
        raise pickle.PicklingError(_unnamed(self))

    def nameless(self) -> Reduction | None:
        """Return the reduction of an object that no name leads to any more, or None."""
        return None

    def by_value(self) -> tuple[bool, Reduction] | None:
        """Return (portable, reduction) of an equal object, or None if there is no way to make one.

        portable: True if plain pickle can use the reduction, False if only cloudpickle can.
        """
        return None

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        nameless = self.nameless()
        if nameless is None:
            return self
        make, arguments = nameless
        return make(*arguments)


def load_by_name(module: str, name: str, depth: int) -> Any:
    """Return the object that a module has under a name, or the one `depth` wrappers inside it."""
    try:
        outermost = operator.attrgetter(name)(importlib.import_module(module))
        return functools.reduce(lambda outer, _: outer.fn, range(depth), outermost)
    except AttributeError as error:
        raise pickle.UnpicklingError(
            f"`{name}` was pickled by name, and module {module!r} has no such kernel or function "
            "in this process; define it in a file that both processes import"
        ) from error


def _path(value: Any) -> tuple[str, str, int] | None:
    """Return the arguments with which `load_by_name` returns `value`, or None."""
    module = sys.modules.get(value.__module__)
    if module is None:
        return None
    for name in _names(module, value):
        try:
            outermost = operator.attrgetter(name)(module)
        except AttributeError:
            continue
        for depth, inner in enumerate(_layers(outermost)):
            if inner is value:
                return value.__module__, name, depth
    return None


def _names(module: Any, value: Any) -> Iterator[str]:
    """Yield the names to look up: the value's own first, then all others of the module."""
    yield value.__qualname__
    yield from [
        name for name, other in list(vars(module).items()) if isinstance(other, PickledByName)
    ]


def _layers(value: Any) -> Iterator[Any]:
    """Yield a value, then the objects that it wraps, outermost first."""
    while isinstance(value, PickledByName):
        yield value
        value = getattr(value, "fn", None)


def _for_cloudpickle() -> bool:
    """Return True while cloudpickle pickles, under its own name or vendored by another package.

    pickle passes nothing on that tells; but the nearest Python frame is cloudpickle's `dump`.
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
