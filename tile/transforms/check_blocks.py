"""Drop the blocks of arrays that TMA cannot copy, as they may begin between multiples of 16 bytes.

Tensor maps have aligned addresses and strides. The index of a block along the last axis counts
elements, and TMA takes one only if it is a multiple of 16 bytes: another one is an illegal
instruction, in any rank. NVIDIA does not document it; Triton's issue 7385 and pull request 9112
describe it, too.
"""

from __future__ import annotations

from tile.analysis.axis_info import AxisInfoResult, axis_info
from tile.ir.core import Function, Operation, Value
from tile.ir.descriptor_type import Descriptor
from tile.ir.module import Module
from tile.ir.ops import descriptor
from tile.ir.ops.memory import pointee
from tile.ir.passes import module_pass
from tile.ir.types import Scalar
from tile.transforms.dce import remove_dead


@module_pass("check-blocks")
def check_blocks(module: Module) -> None:
    """Keep the statement that pointers are those of a block only where TMA can copy the block.

    Its index along the last axis is a multiple of 16 bytes. Other blocks stay plain pointers.

        %i = mul %pid, %n                              %n is no multiple of 8
        %q = descriptor_pointers %p, .., %i            %x = load %p, %m, %z : tile<64xf16>
        %x = load %q, %m, %z : tile<64xf16>
    """
    for function in module:
        _check(function)


def _check(function: Function) -> None:
    blocks = [op for op in function.walk() if op.defn in descriptor.BLOCK_POINTERS]
    if not blocks:
        return
    axes = axis_info(function)
    misaligned = [op for op in blocks if not _is_aligned(op, axes)]
    for op in misaligned:
        op.result.replace_by(op.inputs[0])
        op.erase()
    if misaligned:
        remove_dead(function)


def _is_aligned(block: Operation, axes: AxisInfoResult) -> bool:
    """Return True if the index of a block along the last axis is a multiple of 16 bytes."""
    element = pointee(block.name, block.result.type)
    assert isinstance(element, Scalar)
    (multiple,) = axes.of(_last_index(block)).divisible
    return element.bytes_of(multiple) % Descriptor.ALIGNMENT == 0


def _last_index(block: Operation) -> Value:
    offsets = len(block["lower"]) if block.defn is descriptor.im2col_pointers else 0
    return block.inputs[-1 - offsets]
