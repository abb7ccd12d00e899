"""Compile jitted functions to an IR module, by a table with the rule of every AST node."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from tile.analysis.alias import Alias, PointsTo, module_aliases
from tile.errors import ArgumentTypeError, CompilationError, TileError
from tile.frontend.python.aggregates import with_constants
from tile.frontend.python.calls import plain
from tile.frontend.python.comprehensions import COMPREHENSIONS
from tile.frontend.python.debug_info import emit_return_step, emit_step
from tile.frontend.python.expressions import EXPRESSIONS
from tile.frontend.python.lowering_context import (
    Binding,
    Lowering,
    Rules,
    Scope,
    Specialization,
    note_at,
)
from tile.frontend.python.source import DeviceFunction
from tile.frontend.python.statements import STATEMENTS, body
from tile.frontend.python.value_trees import (
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
from tile.ir.builder import Builder
from tile.ir.compilation_context import nesting_error
from tile.ir.core import Function, Operation
from tile.ir.debug_info import DebugSteps
from tile.ir.module import Module
from tile.ir.ops import control
from tile.ir.ops.debug import StepKind, breakpoint_
from tile.ir.parameters import Argument
from tile.ir.rewriter import erase_unused
from tile.ir.types import Pointer, Scalar, Type
from tile.language.base.builtin import suggestion
from tile.language.base.tensor import DescriptorParts, Tensor
from tile.language.descriptor import build_descriptor
from tile.location import Loc
from tile.short_repr import short_repr

RULES = Rules({**EXPRESSIONS, **COMPREHENSIONS}, STATEMENTS, body)


LONGEST_NAME = 80


def compile_function(
    function: DeviceFunction,
    arg_types: Mapping[str, Any],
    constexprs: Mapping[str, Any],
    attributes: Mapping[str, Argument] | None = None,
    steps: DebugSteps = DebugSteps.NEVER,
) -> Module:
    """Compile a kernel for argument types to a module with it and the functions it calls.

    arg_types: the scalar or pointer type of each runtime parameter. A parameter that takes a tuple
        has a tuple of types, in which any other object is a compile-time value. Items of tuples
        become IR parameters `name.0`, `name.1`, and those of named tuples `name.field`.
    constexprs: the values of compile-time parameters. A parameter in neither mapping has its
        default.
    attributes: what is known of the values of IR parameters, by name.
    steps: which kernels get debug steps.

    Raises `CompilationError` with a location for an invalid program, and `ArgumentTypeError` for
    arguments that do not match the parameters.
    """
    arguments = kernel_arguments(function, arg_types, constexprs)
    session = ModuleSession(steps=steps is DebugSteps.ALWAYS)
    try:
        ir, _ = session.compile(function, ir_name(function.name), arguments, kernel=True)
        if steps is DebugSteps.AT_BREAKPOINTS and has_breakpoint(session.module):
            session = ModuleSession(steps=True)
            ir, _ = session.compile(function, ir_name(function.name), arguments, kernel=True)
    except RecursionError as error:
        raise nesting_error(function.loc) from error
    refuse_writes(session.module, session.constant)
    _set_attributes(ir, attributes or {}, session.constant[ir.name], function)
    return session.module


def _set_attributes(
    kernel: Function,
    attributes: Mapping[str, Argument],
    constant: Collection[int],
    function: DeviceFunction,
) -> None:
    """Set the attributes of a kernel's parameters: of its arguments, and from its declaration."""
    promised = {parameter.name for parameter in function.parameters if parameter.is_noalias}
    for index, value in enumerate(kernel.args):
        argument = attributes.get(value.name, Argument())
        owner = value.name.partition(".")[0]
        kernel.arguments[index] = replace(
            argument,
            readonly=argument.readonly or index in constant,
            noalias=argument.noalias or owner in promised,
        )


def has_breakpoint(module: Module) -> bool:
    """Return True if a function of the module calls `breakpoint()`."""
    return any(op.defn is breakpoint_ for op in module.walk())


def kernel_arguments(
    function: DeviceFunction, arg_types: Mapping[str, Any], constexprs: Mapping[str, Any]
) -> dict[str, object]:
    """Return a value for each parameter; a runtime value is represented by its type."""
    names = [parameter.name for parameter in function.parameters]
    for name in (*arg_types, *constexprs):
        if name not in names:
            raise ArgumentTypeError(
                f"`{function.name}` has no parameter `{name}`{suggestion(name, names)}",
                loc=function.loc,
            )
    arguments: dict[str, object] = {}
    for parameter in function.parameters:
        name = parameter.name
        if parameter.is_rest:
            raise function.refused_parameter(f"*{name}")
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
    """The compilation of the functions of one module."""

    def __init__(self, *, steps: bool) -> None:
        self.steps = steps
        self.module = Module()
        self.done: dict[Hashable, Specialization] = {}
        self.active: list[DeviceFunction] = []
        self.constant: dict[str, frozenset[int]] = {}  # `tl.const` arguments, by function

    @contextmanager
    def without_steps(self) -> Iterator[None]:
        """Compile functions without debug steps inside the `with` block."""
        outer, self.steps = self.steps, False
        try:
            yield
        finally:
            self.steps = outer

    def specialize(
        self, function: DeviceFunction, arguments: Mapping[str, object], call: Loc
    ) -> Specialization:
        """Return the specialization of a function for these arguments; compile it if it is new."""
        if function in self.active:
            raise recursion([*self.active[self.active.index(function) :], function], call)
        key = (function, self.steps, *map(key_of, arguments.values()))
        done = self.done.get(key)
        if done is None:
            patterns = {name: transform(value, by_type) for name, value in arguments.items()}
            try:
                done = self.compile_called(function, patterns)
            except TileError as error:
                if error.loc is not None:
                    error.loc = error.loc.called_from(call)
                raise
            self.done[key] = done
        return done

    def compile_called(
        self, function: DeviceFunction, arguments: Mapping[str, object]
    ) -> Specialization:
        name = self.free_name(f"{ir_name(function.name)}__{mangle(arguments)}")
        ir, result = self.compile(function, name, arguments, kernel=False)
        if not ir.result_types:  # it may be called for the type of a value only
            erase_unused(ir.body, self.module.functions)
        if ir.body.first is ir.body.last and not ir.result_types:
            del self.module.functions[name]  # it does nothing at run time
            name = ""
        return Specialization(name, result)

    def free_name(self, prefix: str) -> str:
        name, number = prefix, 1
        while name in self.module.functions:
            number += 1
            name = f"{prefix}_{number}"
        return name

    def compile(
        self, function: DeviceFunction, name: str, arguments: Mapping[str, object], *, kernel: bool
    ) -> tuple[Function, object]:
        """Compile a function for these arguments into the module; return it and its result."""
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
        rules = function.rules if isinstance(function.rules, Rules) else RULES
        low = Lowering(function, self, rules, Builder(ir.body), scope, kernel=kernel)
        for name, binding in list(scope.items()):
            if isinstance(binding, Binding):
                low.build.loc = binding.loc
                low.bind(name, with_descriptors(low.build, binding.value), binding.loc)
        emit_step(low, function.loc, StepKind.CALL)
        self.active.append(function)
        try:
            low.body(low.source.node.body, low.live_names(frozenset()))
        finally:
            self.active.pop()
        for flag in low.flags:
            if flag.op is not None and not flag.uses:
                flag.op.erase()
        result = returned(low)
        values = leaves(result)
        ir.result_types = tuple(value.type for value in values)
        low.build.loc = function.loc
        emit_return_step(low, result)
        low.build.op(control.return_, *values)
        return ir, result


def parameters(function: DeviceFunction, arguments: Mapping[str, object], ir: Function) -> Scope:
    """Return the scope with the parameters; runtime ones are bound to the IR arguments."""
    source = function.source
    nodes = source.node.args
    rest = [] if nodes.vararg is None else [nodes.vararg]
    every = (*nodes.posonlyargs, *nodes.args, *rest, *nodes.kwonlyargs)
    nodes_by_name = {arg.arg: arg for arg in every}
    values = iter(ir.args)

    def argument_value(leaf: object) -> object:
        return Tensor(next(values)) if isinstance(leaf, Runtime) else leaf

    scope: Scope = {}
    for name, argument in arguments.items():
        value = with_constants(transform(argument, argument_value))
        name_leaves(value, name)
        scope[name] = Binding(value, source.loc(nodes_by_name[name], function.name))
    return scope


def with_descriptors(build: Builder, value: object) -> object:
    """Return a parameter's value with `build_descriptor` applied to the parts of descriptors."""
    if isinstance(value, DescriptorParts):
        return build_descriptor(build, value)
    if isinstance(value, tuple):
        return like(value, [with_descriptors(build, item) for item in value])
    return value


def returned(low: Lowering) -> object:
    """Return the result of a function, or raise if only some of its paths return a value."""
    flow = low.flow
    if flow.returned is False or flow.result is None:
        return None
    value = flow.result.value
    if flow.returned is not True and value is not None:
        raise CompilationError(
            f"`{low.function.name}` returns {describe(value)} here, but other paths reach its end "
            "without a `return`; all paths must return one type",
            loc=flow.result.loc,
            notes=[note_at("the function is", low.function.loc)],
        )
    return value


def by_type(leaf: object) -> object:
    """Return the specialization key of a value: a runtime value is replaced by its type."""
    return Runtime(leaf.type) if isinstance(leaf, Tensor) else leaf


def mangle(arguments: Mapping[str, object]) -> str:
    """Return the part of a specialized function's name that encodes its arguments."""
    words: list[str] = []

    def spell(leaf: object) -> object:
        words.append(
            str(leaf.type) if isinstance(leaf, Runtime) else f"c{short_repr(leaf, show=str)}"
        )
        return leaf

    transform(tuple(arguments.values()), spell)
    return re.sub(r"\W+", "_", "_".join(words)).strip("_")[:LONGEST_NAME]


def recursion(cycle: list[DeviceFunction], call: Loc) -> CompilationError:
    """Return the error for a function that calls itself, directly or through others."""
    names = " -> ".join(f.name for f in cycle)
    return CompilationError(
        f"`{cycle[0].name}` calls itself ({names}); recursion is not supported, write a loop",
        loc=call,
    )


def refuse_writes(module: Module, constant: Mapping[str, Collection[int]]) -> None:
    """Raise `CompilationError` for an operation that may write through a constant parameter.

    `constant` holds the positions of such parameters, by function. Alias analysis follows pointers
    through arithmetic, casts, selections, loops, calls and descriptors.
    """
    if not any(constant.values()):
        return
    aliases = module_aliases(module)
    for name, positions in constant.items():
        if name not in module.functions:
            continue
        for op, index in _writes(aliases[name], positions):
            parameter = aliases[name].function.args[index]
            inside = " in this call" if op.defn is control.call else ""
            raise CompilationError(
                f"`{parameter.name}` is annotated tl.const, and `{name}` writes through it"
                f"{inside}; drop the annotation, or write to another array",
                loc=op.loc,
            )


def _writes(alias: Alias, positions: Collection[int]) -> Iterator[tuple[Operation, int]]:
    """Yield the operations that may write through one of the parameters, each with the first."""
    constant = PointsTo(frozenset(positions))
    function: Function = alias.function
    for op in function.walk():
        written = alias.written(op).parameters & constant.parameters
        if written:
            yield op, min(written)
