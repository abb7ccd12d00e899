"""Unroll the loops over k-slices of FMA dots.

An f32 matmul of 128x128x16 tiles with 8 warps takes 1208 instructions for 1024 FMAs of an
iteration, and 199 registers; with the loop over four slices 1545 and 168 (ptxas 13.0, sm_90a).
"""

from __future__ import annotations

import math

from tile.ir.core import Block, Operation, Value
from tile.ir.effects import is_pure, iterations
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import control
from tile.ir.passes import module_pass
from tile.ir.types import Fragment, Scalar
from tile.simt import ops
from tile.simt.schedule.dot_slices import VECTOR_WORDS
from tile.simt.target import GENERIC, SimtTarget
from tile.transforms.unroll import unroll_by, unroll_fully


@module_pass("unroll-slices", before=Level.THREAD)
def unroll_slices(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Unroll loops of a few FMA dots, so that addresses are constants and loads overlap the dots.

        %d = for %i = 0 to 4 step 1 iter(%t = %c) {     %a = shared_load %m, %p
          %a = shared_load %m, (xor %p, %i)             %u = fma_dot %a, %b, %c
          %u = fma_dot %a, %b, %t                       %e = shared_load %m, (xor %p, %1)
          yield %u                                      %v = fma_dot %e, %f, %u
        }                                               ...

    A longer loop becomes a shorter one of several slices. Devices that execute the lanes of a warp
    in one vector instruction keep the loop: their compilers unroll it as they need.

    Copies for a later iteration, which precede the slices, are then issued one by one, each after
    the loads of a slice. In front of all, they would delay the loads of the first slice, for which
    all warps wait after a barrier.
    """
    if target.simd_width > 1:
        return
    for function in module:
        for loop in [op for op in function.walk() if op.defn is control.for_]:
            numbers = iterations(loop)
            if numbers is None or any(op.regions for op in loop.regions[0]):
                continue
            at_once = _slices_at_once(loop, target)
            if len(numbers) <= at_once:
                unroll_fully(loop, numbers)
            elif at_once > 1:
                unroll_by(loop, at_once, numbers.step, numbers)
        for loop in [op for op in function.walk() if op.defn is control.for_]:
            _delay_copies(loop.regions[0])


def _delay_copies(body: Block) -> None:
    """Move copies in front of the slices of a loop's body between these."""
    dots = [op for op in body if op.defn is ops.mma.fma_dot]
    copies = [op for op in body if op.defn is ops.thread.shared_cp_async]
    if not copies or len(copies) >= len(dots) or not copies[-1].is_before(dots[0]):
        return
    ordered = list(body)
    crossed = ordered[ordered.index(copies[0]) : ordered.index(dots[len(copies)])]
    if not all(is_pure(op) or op.defn in _CROSSED for op in crossed):
        return
    number = 0
    for op in [op for op in crossed if op.defn in _ISSUES]:
        number += op.defn is ops.thread.shared_cp_async
        op.move_before(dots[number])


_ISSUES = frozenset({ops.thread.shared_cp_async, ops.shared.cp_async_commit_group})
_CROSSED = _ISSUES | {ops.thread.shared_load}  # of what no copy in flight writes


def _fits(op: Operation, target: SimtTarget) -> bool:
    """Return True if a thread has registers for a dot and the operands of the next slice.

    An FMA takes elements of fewer than 32 bits as f32. Where copies are asynchronous, a slice of a
    vector may take all registers: the assembler loads operands of the next one as registers become
    free.
    """
    a, b, acc = map(_registers, op.inputs)
    twice = acc + 2 * (a + b) + target.tuning.address_registers <= target.registers
    vector = op["sizes"][3] >= VECTOR_WORDS and bool(target.cp_async_bytes)
    once = acc + a + b + target.tuning.least_other_registers <= target.registers
    return twice or (vector and once)


def _registers(value: Value) -> int:
    assert isinstance(value.type, Fragment)
    assert isinstance(value.type.of, Scalar)
    return value.type.count * max(1, value.type.of.bits // 32)


def _slices_at_once(loop: Operation, target: SimtTarget) -> int:
    """Return how many iterations may become one: a power of two, or 0 for one without FMA dots."""
    dots = [op for op in loop.regions[0] if op.defn is ops.mma.fma_dot]
    if not all(_fits(op, target) for op in dots):
        return 0
    fmas = sum(math.prod(op["sizes"]) for op in dots)
    return 1 << (target.tuning.unrolled_fmas // fmas).bit_length() >> 1 if fmas else 0
