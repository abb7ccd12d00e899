"""Classes with one object for each value: two objects are compared and hashed by identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Unique(type):
    """The metaclass of frozen dataclasses with `eq=False` of which equal objects are one object.

    The compiler makes the same few types again and again. Here it finds one by its arguments, which
    were checked when the first was made, and tables with types in their keys call no function in
    Python. The objects stay until the end of the process.
    """

    _objects: dict[tuple[Any, ...], Any]
    __match_args__: tuple[str, ...] = ()  # the names of the fields, from the decorator

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._objects = {}

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return the object of these arguments. Raises what making it raises."""
        objects = cls._objects
        try:
            if not kwargs and (made := objects.get(args)) is not None:
                return made
            made = super().__call__(*args, **kwargs)
            values = tuple([getattr(made, name) for name in cls.__match_args__])
            unique = objects.setdefault(values, made)
            return unique if kwargs else objects.setdefault(args, unique)
        except TypeError:  # an argument has no hash
            return super().__call__(*args, **kwargs)


def by_fields(self: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Pickle an object by its class and fields, as `__reduce__`: the copy is the unique object."""
    return type(self), tuple([getattr(self, name) for name in self.__match_args__])
