"""Calls of functions of libdevice, by symbol or by name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops.extern import extern_elementwise as op
from tile.ir.ops.extern import symbol_of
from tile.ir.semantics.libdevice import Symbol, functions
from tile.ir.types import Element, Scalar
from tile.language.base.builtin import Builtin, builtin
from tile.language.base.dtypes import spelled
from tile.language.base.promotion import (
    Number,
    Operand,
    as_number,
    broadcast_together,
    common_type,
    convert,
    describe,
    number_type,
    to_tensor,
)
from tile.language.base.tensor import Tensor


@builtin
def extern_elementwise(
    build: Builder,
    lib_name: Any,
    lib_path: Any,
    args: Any,
    arg_type_symbol_dict: Any,
    is_pure: Any = True,
) -> Tensor:
    """Call a function of libdevice, chosen by the types of `args`, on each element.

    `arg_type_symbol_dict` has a symbol and a result type for each tuple of operand types; operands
    of other types are promoted to their common type first. The library is always libdevice:
    `lib_name` and `lib_path` are ignored, and a symbol of another library is an error, as are
    types that differ from those of the symbol.
    """
    symbols = []
    for types, (name, result) in arg_type_symbol_dict.items():
        symbol = symbol_of(name)
        if symbol.operands != tuple(types) or symbol.result != result:
            raise CompilationError(
                f"{name} has the signature {symbol.signature}, not "
                f"({', '.join(map(spelled, types))}) -> {spelled(result)}"
            )
        symbols.append(symbol)
    return call(build, "tl.extern_elementwise", symbols, args)


def call(build: Builder, name: str, symbols: Sequence[Symbol], args: Sequence[Operand]) -> Tensor:
    """Emit a call of the first symbol that takes the operands; `name` is that of the function.

    Types are matched as they are, then with numbers in any type of their kind, then promoted to a
    common type. Raises `CompilationError` if no symbol takes them.
    """
    numbers = [as_number(x) for x in args]
    operands = [
        x if n is not None else to_tensor(build, x, f"an argument of {name}")
        for x, n in zip(args, numbers, strict=True)
    ]
    symbol = _choose(symbols, operands, numbers)
    if symbol is None:
        takes = " or ".join(f"({_types(symbol.operands)})" for symbol in symbols)
        shown = ", ".join(map(describe, args))
        raise CompilationError(f"{name} takes {takes}, not ({shown}); cast first: x.to(tl.float32)")
    tensors = [
        convert(build, x, ty) if isinstance(x, Tensor) else _constant(build, n, ty)
        for x, n, ty in zip(operands, numbers, symbol.operands, strict=True)
    ]
    together = broadcast_together(build, *tensors)
    return Tensor(build(op, *(x.value for x in together), symbol=symbol.name))


def _constant(build: Builder, number: Number | None, ty: Scalar) -> Tensor:
    assert number is not None
    return Tensor(build.constant(float(number) if ty.is_floating() else int(number), ty))


def _choose(
    symbols: Sequence[Symbol], operands: Sequence[Any], numbers: Sequence[Number | None]
) -> Symbol | None:
    own = [x.dtype if n is None else number_type(n) for x, n in zip(operands, numbers, strict=True)]
    by_types = {symbol.operands: symbol for symbol in symbols}
    if tuple(own) in by_types:
        return by_types[tuple(own)]
    for symbol in symbols:
        pairs = zip(symbol.operands, own, numbers, strict=False)
        if len(own) == len(symbol.operands) and all(
            ty == actual if n is None else _holds(ty, n) for ty, actual, n in pairs
        ):
            return symbol
    if not all(isinstance(ty, Scalar) for ty in own):
        return None
    return by_types.get((reduce(common_type, own),) * len(own))


def _holds(ty: Scalar, number: Number) -> bool:
    """Return True if a number can be an operand of a type without a cast."""
    if isinstance(number, bool):
        return False
    if ty.is_floating():
        return True
    return isinstance(number, int) and ty.min_value <= number <= ty.max_value


def _types(types: Iterable[Element]) -> str:
    return ", ".join(map(spelled, types))


def libdevice_function(name: str, module: str) -> Builtin[..., Any]:
    """Return the function of libdevice as a builtin of `module`; its parameters are `arg0`, ..."""
    symbols = functions()[name]
    parameters = [
        inspect.Parameter(f"arg{k}", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for k in range(len(symbols[0].operands))
    ]
    signature = inspect.Signature(parameters)

    def function(build: Builder, *args: Operand, **kwargs: Operand) -> Tensor:
        return call(build, f"libdevice.{name}", symbols, signature.bind(*args, **kwargs).args)

    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = "\n".join(f"{symbol.name}: {symbol.signature}" for symbol in symbols)
    declared: Builtin[..., Any] = Builtin(function)
    declared.name = f"extra.libdevice.{name}"  # apart from tl.exp, also in keys of caches
    declared.signature = signature
    return declared
