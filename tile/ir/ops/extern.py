"""Calls of functions that a library implements: those of libdevice, NVIDIA's mathematics."""

from __future__ import annotations

import difflib
from typing import Any

from tile.ir.declare import op
from tile.ir.semantics.libdevice import SYMBOLS, Symbol
from tile.ir.types import Type, require, with_element


def symbol_of(name: str) -> Symbol:
    """Return the declaration of a symbol; raise `TypeRuleError` if there is none."""
    near = difflib.get_close_matches(name, SYMBOLS, n=3) if name not in SYMBOLS else []
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    require(name in SYMBOLS, f"libdevice has no function {name}{hint}")
    return SYMBOLS[name]


def _call(*x: Any, symbol: str) -> Any:
    return SYMBOLS[symbol].semantics(*x)


@op(
    semantics=_call,
    elementwise=True,
    examples=(
        '%x: tile<8xf32> | %r = extern_elementwise %x {symbol = "__nv_log1pf"} : tile<8xf32>',
        "%x: tile<8xf64>, %n: tile<8xi32> | "
        '%r = extern_elementwise %x, %n {symbol = "__nv_ldexp"} : tile<8xf64>',
    ),
)
def extern_elementwise(*x: Type, symbol: str) -> Type:
    """Call a function of libdevice on each element.

    Operands have one shape, and the element types of the symbol. `docs/libdevice.md` lists them
    with their accuracy, which is required of every backend.
    """
    function = symbol_of(symbol)
    elements = tuple(ty.element for ty in x)
    passed = ", ".join(map(str, elements))
    require(
        elements == function.operands,
        f"{symbol} has the signature {function.signature}; it does not take ({passed})",
    )
    shapes = {ty.shape for ty in x}
    require(len(shapes) == 1, f"{symbol} takes operands of one shape, not {', '.join(map(str, x))}")
    return with_element(x[0], function.result)
