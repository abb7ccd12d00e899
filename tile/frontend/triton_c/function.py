"""The functions of a Triton-C file, as functions that the compiler accepts."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import types
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from tile.frontend.python.source import REQUIRED, DeviceFunction, Parameter, Source
from tile.frontend.triton_c.parser import Text
from tile.frontend.triton_c.unit import Function, Unit
from tile.frontend.triton_c.unit import Parameter as Declared
from tile.location import Loc

RESTRICT = {"restrict", "__restrict__", "__restrict"}  # spellings of C99 and of compilers


class TritonCFunction(DeviceFunction):
    """A function of a Triton-C file.

    Its parameters are the declared ones, then the constant arrays and tunables that it or its
    callees name. `namespace` has what it may name at file scope.
    """

    definition: Function
    unit: Unit

    @property
    def declared(self) -> list[Declared]:
        """The parameters of its definition."""
        return self.definition.parameters

    @property
    def shared(self) -> tuple[str, ...]:
        """The constant arrays and tunables that callers pass on."""
        return self.definition.uses

    @cached_property
    def source(self) -> Source:
        assert self.definition.node is not None
        text: Text = self.unit.source
        return Source(text.file, text.text, self.definition.node, 0, tuple(text.lines))

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        return (*map(_declared, self.declared), *(self._shared(name) for name in self.shared))

    def _shared(self, name: str) -> Parameter:
        if name in self.unit.tunables:
            return Parameter(name, None, REQUIRED, is_constexpr=True)
        dtype = self.unit.constants[name].dtype
        return Parameter(name, dtype, REQUIRED, is_constexpr=False, is_const=True)

    @cached_property
    def loc(self) -> Loc:
        return self.definition.loc


def _declared(parameter: Declared) -> Parameter:
    qualifiers = parameter.type.qualifiers if parameter.type.pointers else frozenset()
    return Parameter(
        parameter.name,
        parameter.type.dtype,
        REQUIRED,
        is_constexpr=False,
        is_const=bool(qualifiers & {"const", "read_only", "__constant__"}),
        is_noalias=bool(qualifiers & RESTRICT),
    )


def python_function(
    unit: Unit, function: Function, namespace: Mapping[str, Any]
) -> types.FunctionType:
    """Return a Python function with the name, the parameters and the file of a C function.

    It stands for the C function where the compiler asks for a signature, a name and globals; its
    own body is never run.
    """
    names = [*(p.name for p in function.parameters), *function.uses]
    arguments = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    node = ast.FunctionDef(function.name, arguments, [ast.Pass()], [])
    module = ast.Module([node], [])
    for inner in ast.walk(module):
        if isinstance(inner, ast.stmt | ast.arg):
            inner.lineno = inner.end_lineno = function.loc.line
            inner.col_offset = inner.end_col_offset = 0
    variables: dict[str, Any] = dict(namespace)
    exec(compile(module, unit.source.file, "exec"), variables)
    made = variables[function.name]
    assert isinstance(made, types.FunctionType)
    assert list(inspect.signature(made).parameters) == names
    return made


def remember_lines(source: Text) -> None:
    """Let tracebacks and reports show the lines of a text that is in no file."""
    if not os.path.exists(source.file):
        linecache.cache[source.file] = (len(source.text), None, source.lines, source.file)
