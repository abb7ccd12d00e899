"""Choose k-slices of FMA dots so that their operands take few registers.

A thread needs rows and columns of the operands over all of k, which for large tiles are more
registers than it has. So it loads one k-*slice* of both at a time from shared memory, multiplies
these, and adds the result to its accumulator. Shared memory is bounded, too: of an operand in
registers one *part*, several slices, is stored at a time.

    registers        accumulators + slice * (rows + columns)    `slice_register_share` at most
    shared memory    part * the operand's other extents         1 / `slice_shared_share` at most

An operand whose rows are contiguous along k is loaded by vectors of k. Where copies are
asynchronous, so that a loop keeps no loaded tiles in registers, a slice is a vector long if that
leaves `least_other_registers`: a thread with 8 x 16 accumulators reads 3/4 of the bytes of one with
8 x 8.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from functools import lru_cache

from tile.ir.core import Operation, Value
from tile.ir.ops import dot
from tile.ir.types import number_of
from tile.simt.layouts.axes import sliced
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import fma_operand_layouts
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import layout_of, tile_type
from tile.simt.target import SimtTarget

WORD_BITS = 32
VECTOR_WORDS = 4  # of an access to shared memory

# The axis of k of the `a` and the `b` operand, counted from the right.
K_AXES = (-1, -2)


def slice_extent(op: Operation, target: SimtTarget) -> int:
    """Return the extent of a k-slice of a laid-out `dot`: all of k, if registers suffice."""
    a, b, acc = op.inputs
    words = (_words(a), _words(b), _words(acc))
    return _slice_extent(layout_of(acc), a.type.shape[-1], words, target)


@lru_cache(maxsize=1024)
def _slice_extent(
    acc: LinearLayout, k: int, words: tuple[int, int, int], target: SimtTarget
) -> int:
    """Return the extent of a slice, from the `words` of elements of a, b and the accumulator."""
    rows, columns = (layout.in_size(REGISTER) for layout in fma_operand_layouts(acc, 1))
    accumulators, each = acc.in_size(REGISTER) * words[2], rows * words[0] + columns * words[1]
    if accumulators + k * each <= target.registers:
        return k
    most = most_of_vector = int(target.registers * target.tuning.slice_register_share)
    if target.cp_async_bytes:
        most_of_vector = target.registers - target.tuning.least_other_registers
    vector = VECTOR_WORDS // words[0]
    while k > 1 and accumulators + k * each > (most_of_vector if k == vector else most):
        k //= 2
    return k


def _words(value: Value) -> int:
    """Return the 32-bit registers of an element; narrow ones are widened first."""
    element = number_of(value.type)
    return max(1, element.bits // WORD_BITS)


def is_sliced(op: Operation, target: SimtTarget) -> bool:
    """Return True if an operation is a laid-out dot that is sliced."""
    return op.defn is dot.dot and slice_extent(op, target) < op.inputs[0].type.shape[-1]


def stored_extent(op: Operation, operands: Collection[int], target: SimtTarget) -> int:
    """Return the extent of k that is in shared memory at a time, for operands stored there."""
    extent, k = slice_extent(op, target), op.inputs[0].type.shape[-1]
    most = target.shared_bytes // target.tuning.slice_shared_share
    largest = max((tile_bytes(op.inputs[index]) for index in operands), default=0)
    while k > extent and largest > most:
        k, largest = k // 2, largest // 2
    return k


def tile_bytes(value: Value) -> int:
    """Return the bytes of a tile in memory."""
    tile = tile_type(value)
    return tile.of.bytes_of(tile.numel)


def sliced_load_layout(conversion: Operation, target: SimtTarget) -> LinearLayout | None:
    """Return the layout as which a conversion's result is read from shared memory slice by slice.

    None if it is read as a whole.
    """
    uses = [*conversion.result.uses]
    user, index = uses[0] if len(uses) == 1 else (conversion, 0)
    if index >= len(K_AXES) or not is_sliced(user, target):
        return None
    return sliced(layout_of(conversion.result), K_AXES[index], slice_extent(user, target))


def sliced_dot_bytes(op: Operation, buffered: Container[object], target: SimtTarget) -> int:
    """Return the shared memory, in bytes, that a sliced dot takes for its operands.

    Conversions in `buffered` become loads of buffers that exist already.
    """
    k = op.inputs[0].type.shape[-1]
    operands = [i for i in range(len(K_AXES)) if op.inputs[i].op not in buffered]
    part = stored_extent(op, operands, target)
    return sum(tile_bytes(op.inputs[index]) * part // k for index in operands)


def is_loaded_in_slices(op: Operation, target: SimtTarget) -> bool:
    """Return True if an operation is a conversion whose only user is a sliced dot."""
    return op.defn is convert_layout and sliced_load_layout(op, target) is not None
