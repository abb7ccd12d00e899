"""From jitted functions to a module of the IR."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from tile.brief import brief
from tile.errors import ArgumentTypeError, CompilationError, Loc, TileError
from tile.frontend.calls import plain
from tile.frontend.const import refuse_writes
from tile.frontend.scope import Binding, Scope, place
from tile.frontend.source import DeviceFunction
from tile.frontend.state import Lowering, Specialisation
from tile.frontend.steps import mark, returning
from tile.frontend.values import (
    Runtime,
    describe,
    ir_name,
    key_of,
    leaves,
    like,
    name_leaves,
    runtime_types,
    transform,
)
from tile.frontend.visitor import RULES
from tile.ir.builder import Builder
from tile.ir.core import Function, Module
from tile.ir.nesting import too_deep
from tile.ir.ops import control
from tile.ir.ops.debug import StepKind, breakpoint_
from tile.ir.steps import Steps
from tile.ir.types import Pointer, Scalar, Type
from tile.language.builtin import suggestion
from tile.language.descriptor import make_descriptor
from tile.language.descriptor_parts import DescriptorParts
from tile.language.tensor import Tensor

LONGEST_NAME = 80


def compile_function(
    function: DeviceFunction,
    arg_types: Mapping[str, Any],
    constexprs: Mapping[str, Any],
    divisible: Mapping[str, int] | None = None,
    steps: Steps = Steps.NEVER,
) -> Module:
    """Compile a kernel for argument types, to a module with it and the functions it calls.

    `arg_types` gives the scalar or pointer type of each runtime parameter, or a tuple of such for a
    parameter that takes a tuple; anything else in such a tuple is a value known now. Items of
    tuples become parameters `name.0`, `name.1`, those of named tuples `name.field`. `constexprs`
    gives the values of parameters that are known now; a parameter in neither has its default.
    `divisible` says, by the name of a parameter of the IR, of what its value is a multiple. `steps`
    says which kernels get marks for the debugger.

    Raises `CompilationError`, located, for a program that is not valid, and `ArgumentTypeError` for
    arguments that do not fit the parameters.
    """
    arguments = kernel_arguments(function, arg_types, constexprs)
    session = ModuleSession(steps=steps is Steps.ALWAYS)
    try:
        ir, _ = session.compile(function, ir_name(function.name), arguments, kernel=True)
        if steps is Steps.AT_BREAKPOINTS and has_breakpoint(session.module):
            session = ModuleSession(steps=True)
            ir, _ = session.compile(function, ir_name(function.name), arguments, kernel=True)
    except RecursionError as error:
        raise too_deep(function.loc) from error
    refuse_writes(session.module, session.constant)
    for value, argument in zip(ir.args, ir.arguments, strict=True):
        argument.divisible = (divisible or {}).get(value.name, 1)
    return session.module


def has_breakpoint(module: Module) -> bool:
    """Whether a function of the module calls `breakpoint()`."""
    return any(op.defn is breakpoint_ for op in module.walk())


def kernel_arguments(
    function: DeviceFunction, arg_types: Mapping[str, Any], constexprs: Mapping[str, Any]
) -> dict[str, object]:
    """A value for each parameter, a runtime one by its type."""
    known = [parameter.name for parameter in function.parameters]
    for name in (*arg_types, *constexprs):
        if name not in known:
            raise ArgumentTypeError(
                f"`{function.name}` has no parameter `{name}`{suggestion(name, known)}",
                loc=function.loc,
            )
    arguments: dict[str, object] = {}
    for parameter in function.parameters:
        name = parameter.name
        if name in constexprs:
            arguments[name] = plain(constexprs[name])
        elif name in arg_types:
            if parameter.is_constexpr:
                raise ArgumentTypeError(
                    f"`{name}` of `{function.name}` is tl.constexpr: it takes a value, not the "
                    f"type {arg_types[name]}",
                    loc=function.loc,
                )
            arguments[name] = transform(arg_types[name], partial(_runtime, name))
        elif parameter.required:
            raise ArgumentTypeError(
                f"`{function.name}` needs an argument for `{name}`", loc=function.loc
            )
        else:
            arguments[name] = plain(parameter.default)
    return arguments


def _runtime(name: str, leaf: object) -> object:
    if not isinstance(leaf, Type):
        return plain(leaf)
    if not isinstance(leaf, Scalar | Pointer):
        raise ArgumentTypeError(
            f"a kernel takes scalars and pointers, and `{name}` is of type {leaf}"
        )
    return Runtime(leaf)


class ModuleSession:
    """The functions of one module while they are compiled."""

    def __init__(self, *, steps: bool) -> None:
        self.steps = steps
        self.module = Module()
        self.done: dict[Hashable, Specialisation] = {}
        self.active: list[DeviceFunction] = []
        self.constant: dict[str, frozenset[int]] = {}  # `tl.const` arguments, by function

    @contextmanager
    def unmarked(self) -> Iterator[None]:
        """Compile functions without marks inside the `with` block."""
        outer, self.steps = self.steps, False
        try:
            yield
        finally:
            self.steps = outer

    def specialise(
        self, function: DeviceFunction, arguments: Mapping[str, object], call: Loc
    ) -> Specialisation:
        """The function compiled for these arguments, now or before."""
        if function in self.active:
            raise recursion([*self.active[self.active.index(function) :], function], call)
        key = (function, self.steps, *map(key_of, arguments.values()))
        known = self.done.get(key)
        if known is None:
            patterns = {name: transform(value, by_type) for name, value in arguments.items()}
            try:
                known = self.compile_called(function, patterns)
            except TileError as error:
                if error.loc is not None:
                    error.loc = error.loc.called_from(call)
                raise
            self.done[key] = known
        return known

    def compile_called(
        self, function: DeviceFunction, arguments: Mapping[str, object]
    ) -> Specialisation:
        name = self.free_name(f"{ir_name(function.name)}__{mangle(arguments)}")
        ir, result = self.compile(function, name, arguments, kernel=False)
        if ir.body.first is ir.body.last and not ir.result_types:
            del self.module.functions[name]  # it does nothing when the kernel runs
            name = ""
        return Specialisation(name, result)

    def free_name(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.module.functions:
            number += 1
            name = f"{wanted}_{number}"
        return name

    def compile(
        self, function: DeviceFunction, name: str, arguments: Mapping[str, object], *, kernel: bool
    ) -> tuple[Function, object]:
        """Add a function to the module, compiled for these arguments; it and its result."""
        owners = [n for n, value in arguments.items() for _ in runtime_types(value)]
        types = [ty for value in arguments.values() for ty in runtime_types(value)]
        constant = {parameter.name for parameter in function.parameters if parameter.is_const}
        self.constant[name] = frozenset(i for i, n in enumerate(owners) if n in constant)
        ir = Function(
            name,
            types,
            [""] * len(types),
            kernel=kernel,
            noinline=function.noinline and not kernel,
            loc=function.loc,
        )
        self.module.add(ir)
        scope = parameters(function, arguments, ir)
        low = Lowering(function, self, RULES, Builder(ir.body), scope, kernel=kernel)
        for name, binding in list(scope.items()):
            if isinstance(binding, Binding):
                low.build.loc = binding.loc
                low.bind(name, described(low.build, binding.value), binding.loc)
        mark(low, function.loc, StepKind.CALL)
        self.active.append(function)
        try:
            low.body(low.source.node.body, low.wanted(frozenset()))
        finally:
            self.active.pop()
        for flag in low.flags:
            if flag.op is not None and not flag.uses:
                flag.op.erase()
        result = returned(low)
        values = leaves(result)
        ir.result_types = tuple(value.type for value in values)
        low.build.loc = function.loc
        returning(low, result)
        low.build.op(control.return_, *values)
        return ir, result


def parameters(function: DeviceFunction, arguments: Mapping[str, object], ir: Function) -> Scope:
    """The names of the parameters; those of runtime values stand for the function's arguments."""
    source = function.source
    nodes = source.node.args
    places = {arg.arg: arg for arg in (*nodes.posonlyargs, *nodes.args, *nodes.kwonlyargs)}
    values = iter(ir.args)

    def given(leaf: object) -> object:
        return Tensor(next(values)) if isinstance(leaf, Runtime) else leaf

    scope: Scope = {}
    for name, argument in arguments.items():
        value = transform(argument, given)
        name_leaves(value, name)
        scope[name] = Binding(value, source.loc(places[name], function.name))
    return scope


def described(build: Builder, value: object) -> object:
    """A parameter's value with descriptors made of the parts that a kernel is given for them."""
    if isinstance(value, DescriptorParts):
        return make_descriptor(build, value)
    if isinstance(value, tuple):
        return like(value, [described(build, item) for item in value])
    return value


def returned(low: Lowering) -> object:
    """What a function returns, all its paths considered."""
    flow = low.flow
    if flow.returned is False or flow.result is None:
        return None
    value = flow.result.value
    if flow.returned is not True and value is not None:
        raise CompilationError(
            f"`{low.function.name}` returns {describe(value)} here, but other paths reach its end "
            "without a `return`; all paths must return one type",
            loc=flow.result.loc,
            notes=[place("the function is", low.function.loc)],
        )
    return value


def by_type(leaf: object) -> object:
    """A value as a function is specialised on it."""
    return Runtime(leaf.type) if isinstance(leaf, Tensor) else leaf


def mangle(arguments: Mapping[str, object]) -> str:
    """The part of a specialised function's name that tells its arguments."""
    words: list[str] = []

    def spell(leaf: object) -> object:
        words.append(str(leaf.type) if isinstance(leaf, Runtime) else f"c{brief(leaf, show=str)}")
        return leaf

    transform(tuple(arguments.values()), spell)
    return re.sub(r"\W+", "_", "_".join(words)).strip("_")[:LONGEST_NAME]


def recursion(cycle: list[DeviceFunction], call: Loc) -> CompilationError:
    """The error for a function that calls itself, through these others."""
    names = " -> ".join(f.name for f in cycle)
    return CompilationError(
        f"`{cycle[0].name}` calls itself ({names}); recursion is not supported, write a loop",
        loc=call,
    )
