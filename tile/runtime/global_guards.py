"""Guards on captured variables: detect that a kernel's globals have changed between launches.

The values of globals and closure variables are compiled into a kernel. They are compared by
identity before each launch, which is cheap: most kernels capture only the language.
"""

from __future__ import annotations

from types import CellType, FunctionType, ModuleType
from typing import Any

from tile.frontend.python.source import DeviceFunction, cell_contents, names_read

Watch = tuple[dict[str, Any], str, object]


class Captures:
    """The variables that a function and its callees capture, with their values."""

    def __init__(self, function: DeviceFunction) -> None:
        self._names: list[Watch] = []
        self._cells: list[tuple[CellType, object]] = []
        self._seen: set[DeviceFunction] = set()
        self._visit(function)

    def current(self) -> bool:
        """Return True if every variable is still bound to the same object."""
        for names, name, value in self._names:
            if names.get(name) is not value:
                return False
        return not self._cells or all(cell_contents(cell) is value for cell, value in self._cells)

    @property
    def watching(self) -> bool:
        """True if there are variables to compare."""
        return bool(self._names or self._cells)

    def _visit(self, function: DeviceFunction) -> None:
        if function in self._seen:
            return
        self._seen.add(function)
        fn = function.fn
        used = set(names_read(fn.__code__))
        for cell in fn.__closure__ or ():
            self._cells.append((cell, cell_contents(cell)))
            self._follow(cell_contents(cell), used)
        for name in sorted(used & fn.__globals__.keys()):
            self._watch(fn.__globals__, name, used)

    def _watch(self, names: dict[str, Any], name: str, used: set[str]) -> None:
        value = names[name]
        if not _is_fixed(value):
            self._names.append((names, name, value))
            self._follow(value, used)

    def _follow(self, value: object, used: set[str]) -> None:
        """Watch the variables that a value leads to: of a jitted function, or of a module."""
        if isinstance(value, DeviceFunction):
            self._visit(value)
        elif isinstance(value, ModuleType) and not _is_fixed(value):
            for name in sorted(used & vars(value).keys()):
                member = vars(value)[name]
                if not isinstance(member, ModuleType | FunctionType):
                    self._watch(vars(value), name, used)


def _is_fixed(value: object) -> bool:
    """Return True for modules whose names are assumed constant: the language and some others."""
    name = value.__name__ if isinstance(value, ModuleType) else ""
    return name.partition(".")[0] in ("tile", "triton", "math", "numpy", "torch")
