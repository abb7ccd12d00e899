"""Warn about code that takes more than twice the time that its line suggests."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tile.errors import PerformanceWarning
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import control, memory
from tile.ir.passes import module_pass
from tile.ir.types import F32, Fragment, Scalar, number_of
from tile.simt import ops
from tile.simt.target import GENERIC, SimtTarget
from tile.tracebacks import warn

# An async copy moves at least so many bytes; smaller elements of a thread pass through registers
# one by one.
LEAST_COPY_BYTES = 4
# A thread that loads fewer elements in an iteration is not slowed down by loading them one by one.
MANY_ELEMENTS = 8
# A dot with fewer FMAs in each thread does not take longer than the latency of its loads.
MANY_FMAS = 256


@module_pass("warn-slow-code", before=Level.THREAD)
def warn_slow_code(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Warn about dots without tensor cores, and narrow loads in loops with dots.

    The IR is unchanged. Each line of a kernel is warned about once.

        for .. {
          %x = load %p : frag<32xf16>          // warning: elements are loaded one by one
          %d = fma_dot %a, %x, %c {..}         // warning: this dot does not use the tensor cores
        }

    A dot is meant that has an mma instruction for its elements, but not for its shape. Small dots
    and loads of few elements are silent.
    """
    for function in module:
        dots = [op for op in function.walk() if op.defn is ops.mma.fma_dot and _is_long(op)]
        # An unrolled dot is several of one line.
        for op in {op.loc: op for op in dots if _has_mma(op, target)}.values():
            warn(_FMA_DOT.format(op.inputs[0].type.element), op.loc, PerformanceWarning)
        for op in function.walk():
            if op.defn is control.for_:
                for load in _narrow_loads(op):
                    element = number_of(load.result.type)
                    warn(
                        _NARROW_LOAD.format(element, element.itemsize), load.loc, PerformanceWarning
                    )


_FMA_DOT = (
    "this dot of {} multiplies by the FMA units of each thread, at a small part of the rate of the "
    "tensor cores: no mma instruction has its shape; both tiles take at least 16 rows, 16 columns, "
    "and 16 elements (32 of 8 bits) along k"
)
_NARROW_LOAD = (
    "this load feeds a loop with dots element by element ({}, {} bytes): its elements are not "
    "known to be contiguous and aligned to 4 bytes, so that it is neither vectorized nor "
    "asynchronous; take strides that are multiples of 8 (pad rows), state tl.multiple_of and "
    "tl.max_contiguous, or load by a tensor descriptor"
)


def _is_long(op: Operation) -> bool:
    return bool(math.prod(op["sizes"]) >= MANY_FMAS)


def _has_mma(op: Operation, target: SimtTarget) -> bool:
    """Return True if the target has an mma instruction for a dot's elements, of any shape."""
    element = op.inputs[0].type.element
    if not isinstance(element, Scalar) or element is F32:  # f32 asks for tf32 explicitly
        return False
    return any(target.has_mma(shape, element) for shape in target.mma_shapes)


def _narrow_loads(loop: Operation) -> Iterator[Operation]:
    """Yield the loads of a loop with dots that move less than an async copy would at least."""
    (body,) = loop.regions
    if not any(op.has_trait(Trait.DOT) for op in body):
        return
    for op in body:
        if op.defn is memory.load and isinstance(op.result.type, Fragment):
            element = op.result.type.element
            narrow = isinstance(element, Scalar) and (
                element.itemsize * op["vector"] < LEAST_COPY_BYTES
            )
            if narrow and op.result.type.count >= MANY_ELEMENTS:
                yield op
