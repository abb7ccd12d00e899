"""Sink conversions to wider elements to their first use.

A value that is loaded as f16 and used much later takes half the registers until it is converted.
ptxas leaves conversions that are written next to their load there if square roots and divisions
follow, whose slow paths are calls.
"""

from __future__ import annotations

from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import arith
from tile.ir.passes import module_pass
from tile.ir.types import Scalar
from tile.simt.ops.layout_inference import register_count


@module_pass("sink-casts", before=Level.THREAD)
def sink_casts(module: Module) -> None:
    """Move casts whose results take more registers than their operands in front of their first use.

        %x = load %p : frag<8xbf16>            %x = load %p : frag<8xbf16>
        %y = cast %x {to = f32}                %s = sqrt %v
        %s = sqrt %v                           %y = cast %x {to = f32}
        %z = mul %y, %s                        %z = mul %y, %s

    Uses in other blocks, such as loops, keep a cast where it is. So do dots in its own block: there
    the schedule decides the order.
    """
    for function in module:
        for op in reversed(list(function.walk())):
            if op.defn is arith.cast and _widens_floats(op):
                _sink(op)


def _widens_floats(op: Operation) -> bool:
    source, result = op.inputs[0], op.result
    elements = (source.type.element, result.type.element)
    floats = all(isinstance(element, Scalar) and element.is_floating() for element in elements)
    return floats and register_count(result) > register_count(source)


def _sink(op: Operation) -> None:
    users = set(op.result.users)
    block = op.block
    if not users or block is None or any(user.block is not block for user in users):
        return
    if any(each.has_trait(Trait.DOT) for each in block):
        return
    following = op.next
    while following is not None and following not in users:
        following = following.next
    if following is not None and following is not op.next:
        op.unlink()
        block.insert(op, following)
