"""Modules: functions by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tile.errors import IRError
from tile.ir.core import Function, Operation, clone


class Module:
    """Functions by name, in order: kernels and the functions that they call.

    `declarations` are functions that another module defines: a signature, and a body without
    operations. Iteration, and therefore passes, see definitions only.
    """

    def __init__(
        self, functions: Iterable[Function] = (), declarations: Iterable[Function] = ()
    ) -> None:
        self.functions: dict[str, Function] = {f.name: f for f in functions}
        self.declarations: dict[str, Function] = {f.name: f for f in declarations}

    def add(self, function: Function) -> Function:
        assert function.name not in self.functions, f"@{function.name} is defined twice"
        self.functions[function.name] = function
        return function

    def __iter__(self) -> Iterator[Function]:
        return iter(list(self.functions.values()))

    def __getitem__(self, name: str) -> Function:
        return self.functions[name]

    @property
    def kernels(self) -> list[Function]:
        return [f for f in self.functions.values() if f.kernel]

    @property
    def kernel(self) -> Function:
        """The only kernel of the module. Raises `IRError` if there is another number of them."""
        kernels = self.kernels
        if len(kernels) == 1:
            return kernels[0]
        names = ", ".join(map(str, kernels)) or "none"
        raise IRError(
            f"a module to be compiled has one kernel, and this one has {names}",
            loc=kernels[1].loc if kernels else None,
        )

    def walk(self) -> Iterator[Operation]:
        for function in self:
            yield from function.walk()

    def clone(self) -> Module:
        """Return a deep copy."""
        return Module(map(clone_function, self), map(clone_function, self.declarations.values()))


def clone_function(function: Function) -> Function:
    """Return a deep copy of a function."""
    copy = Function(
        function.name,
        [v.type for v in function.args],
        [v.name for v in function.args],
        function.result_types,
        kernel=function.kernel,
        noinline=function.noinline,
        loc=function.loc,
    )
    copy.arguments = [replace(argument) for argument in function.arguments]
    mapping = dict(zip(function.args, copy.args, strict=True))
    for op in function.body:
        copy.body.append(clone(op, mapping))
    return copy
