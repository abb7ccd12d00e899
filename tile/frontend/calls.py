"""Calls: of functions of the language, of jitted functions, and of Python's own while compiling."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tile.brief import brief
from tile.errors import CompilationError, TileError
from tile.frontend.captured import is_callable_now
from tile.frontend.source import REQUIRED, DeviceFunction, Parameter
from tile.frontend.state import Lowering
from tile.frontend.static import StaticFunction
from tile.frontend.static_builtins import STATIC_BUILTINS
from tile.frontend.values import compile_time_only, describe, leaves, rebuild, transform
from tile.ir.builder import Builder
from tile.ir.opdef import Symbol
from tile.ir.ops import control
from tile.ir.types import Scalar
from tile.language import iterators
from tile.language.builtin import Bound, Builtin, Callback, suggestion
from tile.language.constexpr import constexpr
from tile.language.dtypes import spelled
from tile.language.python import PYTHON_BUILTINS
from tile.language.tensor import Tensor

ITERATORS = (iterators.range, iterators.static_range, iterators.condition)


def call(low: Lowering, node: ast.Call) -> object:
    """Any call: of what, with what, and then by the kind of function."""
    function: Any = low.expression(node.func)
    args = list(spread(low, node.args))
    kwargs: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            low.fail(
                keyword.value, "`**` in a call is not supported; write the keyword arguments out"
            )
        kwargs[keyword.arg] = low.expression(keyword.value)
    low.at(node)
    if isinstance(function, DeviceFunction):
        return call_device(low, node, function, args, kwargs)
    if isinstance(function, Builtin | Bound):
        args = [passed(low, node, arg) for arg in args]
        kwargs = {name: passed(low, node, arg) for name, arg in kwargs.items()}
    return apply(low, function, args, kwargs)


class Passed(Callback):
    """A jitted function given to a function of the language."""

    def __init__(self, low: Lowering, node: ast.Call, function: DeviceFunction) -> None:
        self.low = low
        self.node = node
        self.function = function
        self.name = function.name
        self.functions = low.session.module.functions

    def emit(self, build: Builder, *args: object) -> object:
        """Call it where `build` stands, which is where the frontend builds."""
        assert build is self.low.build
        with self.low.session.unmarked():
            return call_device(self.low, self.node, self.function, args, {})

    def __repr__(self) -> str:
        return repr(self.function)


def passed(low: Lowering, node: ast.Call, argument: object) -> object:
    """An argument of a function of the language, which may call a jitted one."""
    return Passed(low, node, argument) if isinstance(argument, DeviceFunction) else argument


def spread(low: Lowering, nodes: Sequence[ast.expr]) -> Iterator[object]:
    """The values of a list of expressions, those with a star spread out."""
    for node in nodes:
        if isinstance(node, ast.Starred):
            value = low.expression(node.value)
            if not isinstance(value, tuple):
                low.fail(node, f"only a tuple can be spread out with `*`, not {describe(value)}")
            yield from value
        else:
            yield low.expression(node)


def apply(low: Lowering, function: Any, args: list[Any], kwargs: dict[str, Any]) -> object:
    """Call what is no jitted function."""
    meaning = function
    if is_callable_now(function):
        meaning = PYTHON_BUILTINS.get(function)
        if meaning is None:
            known = function not in STATIC_BUILTINS  # those take tuples of anything
            return evaluate(STATIC_BUILTINS.get(function, function), args, kwargs, known=known)
    if isinstance(meaning, Builtin | Bound):
        return meaning.emit(low.build, *args, **kwargs)
    if isinstance(meaning, StaticFunction):
        return evaluate(meaning, args, kwargs, known=True)
    if meaning is constexpr:
        return evaluate(constexpr, args, kwargs, known=True)
    if meaning in ITERATORS or (isinstance(meaning, type) and hasattr(meaning, "_fields")):
        return evaluate(meaning, args, kwargs, known=False)  # the latter are named tuples
    raise not_callable(function)


def evaluate(function: Any, args: list[Any], kwargs: dict[str, Any], *, known: bool) -> object:
    """Call a Python function while the kernel is compiled; if `known`, of values known then."""
    name = getattr(function, "__name__", str(function))
    if known:
        what = f"what `{name}` takes"
        args = [compile_time_only(arg, what) for arg in args]
        kwargs = {key: compile_time_only(value, what) for key, value in kwargs.items()}
    try:
        return plain(function(*args, **kwargs))
    except TileError:
        raise
    except Exception as error:  # whatever the user's function raises
        said = brief(error, show=str)
        raise CompilationError(f"`{name}` failed: {type(error).__name__}: {said}") from error


def plain(value: Any) -> Any:
    """A Python value without the wrappers that code outside kernels puts around constants."""
    if isinstance(value, tuple):
        return transform(value, plain)
    if isinstance(value, constexpr):
        return plain(value.value)
    return value.item() if isinstance(value, np.generic) else value


def not_callable(function: object) -> CompilationError:
    """The error for a call of what is no function."""
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
    node: ast.Call,
    function: DeviceFunction,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> object:
    """Compile a jitted function for these arguments, if that was not done before, and call it."""
    arguments = bind(function, args, kwargs)
    known = low.session.specialise(function, arguments, low.loc(node))
    if not known.name:
        return known.result
    operands = [leaf for value in arguments.values() for leaf in leaves(value)]
    types = tuple(leaf.type for leaf in leaves(known.result))
    op = low.build.op(control.call, *operands, callee=Symbol(known.name), results=types)
    return rebuild(known.result, op.results)


def bind(
    function: DeviceFunction, args: Sequence[object], kwargs: Mapping[str, object]
) -> dict[str, object]:
    """A value for every parameter, in order. Raises `CompilationError` for a misfit."""
    parameters = function.parameters
    by_position = [p for p in parameters if p.kind is not p.kind.KEYWORD_ONLY]
    if len(args) > len(by_position):
        raise misfit(function, f"takes {len(by_position)} arguments by position, not {len(args)}")
    given = dict(zip((p.name for p in by_position), args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise misfit(function, f"got two values for `{name}`")
        if name not in {p.name for p in parameters if p.kind is not p.kind.POSITIONAL_ONLY}:
            near = suggestion(name, [p.name for p in parameters])
            raise misfit(function, f"has no parameter `{name}`{near}")
        given[name] = value
    return {p.name: argument(function, p, given.get(p.name, p.default)) for p in parameters}


def argument(function: DeviceFunction, parameter: Parameter, value: object) -> object:
    """The value of one parameter; of a constexpr one, a value known now."""
    if value is REQUIRED:
        raise misfit(function, f"is missing an argument for `{parameter.name}`")
    value = plain(value)
    if not parameter.is_constexpr:
        return value
    what = f"`{parameter.name}` of `{function.name}` is tl.constexpr, so it"
    return compile_time_only(value, what)


def misfit(function: DeviceFunction, problem: str) -> CompilationError:
    """The error for arguments that do not fit the parameters of a jitted function."""
    return CompilationError(
        f"`{function.name}` {problem}",
        notes=[f"it is {function.name}({spell(function.parameters)})"],
    )


def spell(parameters: Sequence[Parameter]) -> str:
    """Parameters as their author would write them."""
    words = []
    for parameter in parameters:
        word = parameter.name + (": tl.constexpr" if parameter.is_constexpr else "")
        equals = " = " if parameter.is_constexpr else "="
        words.append(word if parameter.required else f"{word}{equals}{brief(parameter.default)}")
    return ", ".join(words)
