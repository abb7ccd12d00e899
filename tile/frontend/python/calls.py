"""Calls of builtins of the language, of jitted functions, and of compile-time Python functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.errors import ArgumentTypeError, CompilationError, TileError
from tile.frontend.python.aggregates import (
    Aggregate,
    AggregateType,
    Method,
    operator_method,
    takes_semantic,
)
from tile.frontend.python.attributes import call_of_attributes, of_attributes
from tile.frontend.python.constexpr_function import StaticFunction
from tile.frontend.python.global_names import (
    STATIC_BUILTINS,
    TEXTUAL,
    is_callable_now,
    is_emitting,
)
from tile.frontend.python.lowering_context import Lowering
from tile.frontend.python.source import REQUIRED, DeviceFunction, Parameter, spell_parameters
from tile.frontend.python.value_trees import (
    compile_time_only,
    describe,
    is_number,
    leaves,
    like,
    rebuild,
    transform,
)
from tile.ir.builder import Builder
from tile.ir.core import Symbol
from tile.ir.ops import control
from tile.ir.types import Scalar
from tile.language import python_builtins
from tile.language.base import promotion
from tile.language.base.builtin import SEMANTIC, Bound, Builtin, Callback, suggestion
from tile.language.base.constexpr import constexpr, constexpr_type
from tile.language.base.dtypes import spelled
from tile.language.base.tensor import Tensor
from tile.language.python_builtins import PYTHON_BUILTINS
from tile.language.replacements import advice
from tile.short_repr import short_repr

ITERATORS = (python_builtins.range, python_builtins.static_range, python_builtins.condition)


def call(low: Lowering, node: ast.Call) -> object:
    """Compile a call: evaluate callee and arguments, then dispatch on the kind of callee."""
    function: Any = low.expression(node.func)
    args = list(unpack_starred(low, node.args))
    kwargs: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            low.fail(
                keyword.value, "`**` in a call is not supported; write the keyword arguments out"
            )
        kwargs[keyword.arg] = low.expression(keyword.value)
    low.at(node)
    return call_value(low, node, function, args, kwargs)


def call_value(
    low: Lowering, node: ast.expr | ast.stmt, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> object:
    """Call any object with evaluated arguments, at the location of `node`."""
    if isinstance(function, Aggregate):
        function = operator_method(function, "__call__") or function
    if isinstance(function, Method):
        args = [*function.receivers, *args]
        function = function.function
        if not isinstance(function, DeviceFunction | StaticFunction):
            return call_python(low, node, function, args, kwargs)
    if isinstance(function, DeviceFunction):
        return call_device(low, node, function, args, kwargs)
    if isinstance(function, AggregateType) or is_emitting(function):
        return call_python(low, node, function, args, kwargs)
    if isinstance(function, Builtin | Bound):
        args = [builtin_argument(low, node, arg) for arg in args]
        kwargs = {name: builtin_argument(low, node, arg) for name, arg in kwargs.items()}
    if of_attributes(function):
        return call_of_attributes(low, function, args, kwargs)
    return apply(low, function, args, kwargs)


class JittedCallback(Callback):
    """A jitted function passed as an argument to a builtin, such as the combiner of `tl.reduce`."""

    def __init__(self, low: Lowering, node: ast.expr | ast.stmt, function: DeviceFunction) -> None:
        self.low = low
        self.node = node
        self.function = function
        self.name = function.name
        self.functions = low.session.module.functions

    def emit(self, build: Builder, *args: object) -> object:
        """Emit a call at the insertion point of `build`, which is the frontend's own builder."""
        assert build is self.low.build
        with self.low.session.without_steps():
            return call_device(self.low, self.node, self.function, args, {})

    def __repr__(self) -> str:
        return repr(self.function)


def builtin_argument(low: Lowering, node: ast.expr | ast.stmt, argument: object) -> object:
    """Return an argument of a builtin, with a jitted function wrapped as a callback."""
    return JittedCallback(low, node, argument) if isinstance(argument, DeviceFunction) else argument


@dataclass(frozen=True)
class KernelEmitter:
    """The `_semantic` of a Python function that the compiler calls."""

    low: Lowering
    node: ast.expr | ast.stmt

    def emit(self, function: Builtin[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Emit a call of a builtin at the insertion point, and return its result."""
        low, node = self.low, self.node
        plain_args = [builtin_argument(low, node, plain(arg)) for arg in args]
        named = {name: builtin_argument(low, node, plain(v)) for name, v in kwargs.items()}
        return function.emit(low.build, *plain_args, **named)


def call_python(
    low: Lowering, node: ast.expr | ast.stmt, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> object:
    """Call a Python function that takes runtime values, or the class of an aggregate.

    Compile-time numbers and texts are passed as `tl.constexpr`, and what emits operations as
    `_semantic`, if the function has that parameter.
    """
    args = [transform(arg, as_constexpr) for arg in args]
    kwargs = {name: transform(value, as_constexpr) for name, value in kwargs.items()}
    if takes_semantic(function):
        kwargs[SEMANTIC] = KernelEmitter(low, node)
    try:
        return with_tensors(low, evaluate(function, args, kwargs, static=False))
    except ArgumentTypeError as error:
        raise CompilationError(error.message, notes=error.notes) from error


def as_constexpr(leaf: object) -> object:
    """Return a number, text, slice or None as `tl.constexpr`, and anything else unchanged."""
    return constexpr(leaf) if leaf is None or isinstance(leaf, (*TEXTUAL, slice)) else leaf


def with_tensors(low: Lowering, value: object) -> object:
    """Return a value in which numbers in the `tl.tensor` fields of aggregates are runtime ones."""
    if not isinstance(value, tuple):
        return value
    items = [with_tensors(low, item) for item in value]
    if isinstance(value, Aggregate):
        for index, field in enumerate(type(value)._definition.fields.values()):
            if field.is_tensor and is_number(items[index]):
                items[index] = promotion.to_tensor(low.build, items[index])
    return like(value, items)


def unpack_starred(low: Lowering, nodes: Sequence[ast.expr]) -> Iterator[object]:
    """Yield the values of a list of expressions, with the items of starred ones in their place."""
    for node in nodes:
        if isinstance(node, ast.Starred):
            value = low.expression(node.value)
            if not isinstance(value, tuple):
                low.fail(node, f"only a tuple can be unpacked with `*`, not {describe(value)}")
            yield from value
        else:
            yield low.expression(node)


def apply(low: Lowering, function: Any, args: list[Any], kwargs: dict[str, Any]) -> object:
    """Call a function that is not jitted."""
    callee = function
    if is_callable_now(function):
        callee = PYTHON_BUILTINS.get(function)
        if callee is None:
            if is_math(function) and leaves((*args, *kwargs.values())):
                raise runtime_argument(function)
            static = function not in STATIC_BUILTINS  # those also take tuples of runtime values
            result = evaluate(STATIC_BUILTINS.get(function, function), args, kwargs, static=static)
            return with_tensors(low, result)
    if isinstance(callee, Builtin | Bound):
        return callee.emit(low.build, *args, **kwargs)
    if isinstance(callee, StaticFunction):
        return evaluate(callee, args, kwargs, static=True)
    if callee in (constexpr, constexpr_type):
        may_run = low.function.loose_annotations and leaves((*args, *kwargs.values()))
        return evaluate(callee, args, kwargs, static=not may_run)
    if callee in ITERATORS or (isinstance(callee, type) and hasattr(callee, "_fields")):
        return evaluate(callee, args, kwargs, static=False)  # the latter are named tuples
    raise not_callable(function)


def evaluate(function: Any, args: list[Any], kwargs: dict[str, Any], *, static: bool) -> object:
    """Call a Python function at compile time.

    If `static`, all arguments must be compile-time constants.
    """
    name = getattr(function, "__name__", str(function))
    if static:
        subject = f"an argument of `{name}`"
        args = [compile_time_only(arg, subject) for arg in args]
        kwargs = {key: compile_time_only(value, subject) for key, value in kwargs.items()}
    try:
        return plain(function(*args, **kwargs))
    except TileError:
        raise
    except Exception as error:  # whatever the user's function raises
        message = short_repr(error, show=str)
        raise CompilationError(f"`{name}` failed: {type(error).__name__}: {message}") from error


def plain(value: Any) -> Any:
    """Return a Python value without `tl.constexpr` and NumPy scalar wrappers.

    The constant fields of aggregates stay wrapped, so that loops do not make them runtime values.
    """
    if isinstance(value, Aggregate):
        return like(value, [item if isinstance(item, constexpr) else plain(item) for item in value])
    if isinstance(value, tuple):
        return transform(value, plain)
    if isinstance(value, constexpr):
        return plain(value.value)
    return value.item() if isinstance(value, np.generic) else value


def is_math(function: Any) -> bool:
    """Return True for a function of Python's module `math`."""
    return getattr(function, "__module__", None) == "math"


def runtime_argument(function: Any) -> CompilationError:
    """Return the error for a call of a function of `math` with a runtime value."""
    name = function.__name__
    return CompilationError(
        f"an argument of `{name}` must be known when the kernel is compiled, and this is known "
        f"only when it runs{advice(name)}"
    )


def not_callable(function: object) -> CompilationError:
    """Return the error for a call of an object that is not a function."""
    if isinstance(function, Tensor):
        return CompilationError(f"this is {describe(function)}, a value and not a function")
    if isinstance(function, Scalar):
        name = spelled(function)
        return CompilationError(
            f"{name} is a type and not a function; to convert, write x.to({name})"
        )
    return CompilationError(f"{describe(function)} cannot be called in a kernel")


# -- jitted functions


def call_device(
    low: Lowering,
    node: ast.expr | ast.stmt,
    function: DeviceFunction,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> object:
    """Call a jitted function, specialized for these arguments (compiled once per module)."""
    arguments = bind(function, args, kwargs)
    called = low.session.specialize(function, arguments, low.loc(node))
    if not called.name:
        return called.result
    operands = [leaf for value in arguments.values() for leaf in leaves(value)]
    types = tuple(leaf.type for leaf in leaves(called.result))
    op = low.build.op(control.call, *operands, callee=Symbol(called.name), results=types)
    return rebuild(called.result, op.results)


def bind(
    function: DeviceFunction, args: Sequence[object], kwargs: Mapping[str, object]
) -> dict[str, object]:
    """Return a value for every parameter, in order.

    Raises `CompilationError` if the arguments do not match the parameters.
    """
    parameters = function.parameters
    rest = next((p for p in parameters if p.is_rest), None)
    by_position = [p for p in parameters if p.kind is not p.kind.KEYWORD_ONLY and p is not rest]
    if len(args) > len(by_position) and rest is None:
        raise argument_error(
            function, f"takes {len(by_position)} arguments by position, not {len(args)}"
        )
    values = dict(zip((p.name for p in by_position), args, strict=False))
    named = {p.name for p in parameters if p.kind is not p.kind.POSITIONAL_ONLY and p is not rest}
    for name, value in kwargs.items():
        if name in values:
            raise argument_error(function, f"got two values for `{name}`")
        if name not in named:
            near = suggestion(name, [p.name for p in parameters])
            raise argument_error(function, f"has no parameter `{name}`{near}")
        values[name] = value
    if rest is not None:
        values[rest.name] = tuple(args[len(by_position) :])
    return {p.name: argument(function, p, values.get(p.name, p.default)) for p in parameters}


def argument(function: DeviceFunction, parameter: Parameter, value: object) -> object:
    """Return the value of one parameter: a compile-time value for a constexpr parameter."""
    if value is REQUIRED:
        raise argument_error(function, f"is missing an argument for `{parameter.name}`")
    value = plain(value)
    if not parameter.is_constexpr or (function.loose_annotations and leaves(value)):
        return value
    subject = f"`{parameter.name}` of `{function.name}` is tl.constexpr, so it"
    return compile_time_only(value, subject)


def argument_error(function: DeviceFunction, problem: str) -> CompilationError:
    """Return the error for arguments that do not match the parameters of a jitted function."""
    return CompilationError(
        f"`{function.name}` {problem}",
        notes=[f"it is {spell_parameters(function.name, function.parameters)}"],
    )
