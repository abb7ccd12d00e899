"""Canonicalization: rewrite equivalent IR to one, simpler form.

The other files have the rewrite patterns, by family of their root operations, and `patterns` the
set to which they add them.
"""

from __future__ import annotations

from tile.ir.module import Module
from tile.ir.passes import module_pass
from tile.ir.rewriter import rewrite
from tile.transforms.canonicalize import arith, control, memory, shape
from tile.transforms.canonicalize.patterns import CANONICAL


@module_pass("canonicalize")
def canonicalize(module: Module) -> None:
    """Apply the patterns of this package, fold constants and remove dead operations.

    Patterns are applied until none matches:

        %z = const {value = 0} : i32              %t = select %c, %x, %y : f32
        %a = add %n, %z : i32                     %r = splat %t {shape = (4, 8)} : tile<4x8xf32>
        %t = if %c : f32 {
          yield %x
        } else {
          yield %y
        }
        %s = splat %t {shape = (8, 4)} : tile<8x4xf32>
        %r = trans %s {order = (1, 0)} : tile<4x8xf32>
    """
    for function in module:
        rewrite(function, CANONICAL)
