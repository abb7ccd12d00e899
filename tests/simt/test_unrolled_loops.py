"""Loops are unrolled by the number that a kernel states, and short ones fully."""

from __future__ import annotations

import pytest

from tile.ir.ops import control, memory
from tile.ir.parser import parse_module
from tile.simt.pass_pipeline import lower
from tile.simt.target import GENERIC

TEXT = """
kernel @rows(%p: ptr<f32> {{divisible = 16}}, %q: ptr<f32> {{divisible = 16}}) {{
  %c0 = const {{value = 0}} : i32
  %c1 = const {{value = 1}} : i32
  %n = const {{value = {trips}}} : i32
  %zero = const {{value = 0.0}} : tile<256xf32>
  %lanes = arange {{start = 0, end = 256}} : tile<256xi32>
  %ps = splat %p {{shape = (256)}} : tile<256xptr<f32>>
  %qs = splat %q {{shape = (256)}} : tile<256xptr<f32>>
  %sum = for %i = %c0 to %n step %c1 iter(%a = %zero) : tile<256xf32> {{
    %width = const {{value = 256}} : i32
    %first = mul %i, %width : i32
    %firsts = splat %first {{shape = (256)}} : tile<256xi32>
    %k = add %firsts, %lanes : tile<256xi32>
    %at = addptr %ps, %k {{stride = 4}} : tile<256xptr<f32>>
    %x = load %at : tile<256xf32>
    %b = add %a, %x : tile<256xf32>
    yield %b
  }} {{unroll = {unroll}}}
  %to = addptr %qs, %lanes {{stride = 4}} : tile<256xptr<f32>>
  store %to, %sum
  return
}}
"""


@pytest.mark.parametrize(
    ("trips", "unroll", "loops", "loads"),
    [(64, 1, 1, 1), (64, 4, 1, 4), (66, 4, 2, 5), (4, 1, 0, 4), (5, 1, 1, 1)],
)
def test_loops_are_unrolled(trips: int, unroll: int, loops: int, loads: int) -> None:
    module = parse_module(TEXT.format(trips=trips, unroll=unroll))
    lower(module, GENERIC)
    ops = [op.defn for op in module.walk()]
    assert (ops.count(control.for_), ops.count(memory.load)) == (loops, loads)
