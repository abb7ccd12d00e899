"""How many programs run beside each other, as far as registers and shared memory tell.

Products that go on at the same time take registers for all of their results, and for a factor that
is under way. Where that keeps away programs that would run beside, whose products fill the time
just as well, it is no gain; and a thread that has not so many would keep values in memory. Where
shared memory keeps programs away, the registers are there to be used.

Counts of registers are rough. Threads of the backward pass of attention had, with products that
go on and without, 199 and 162 (here 184 and 160), 140 and 128 (here 152 and 128), and 252 and 242
(here 248 and 224).
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation
from tile.simt.group_layouts import stays_in_registers
from tile.simt.layout_rules import layout_of
from tile.simt.layouts.dims import WARP
from tile.simt.pipeline_loops.loads import registers
from tile.simt.target import SimtTarget

# What a thread needs besides results and factors: pointers, masks, counts.
_OTHERS = 32
# And for what happens while products go on.
_MEANWHILE = 8
# With so many programs beside each other there is always one whose products go on.
_ENOUGH = 6


def keeps_company(products: Sequence[Operation], shared: int, target: SimtTarget) -> bool:
    """Whether as many programs fit beside each other if the products of a loop go on.

    `shared` are the bytes of shared memory of a program.
    """
    results = sum(registers(product.result) for product in products)
    held = [op.inputs[0] for op in products if stays_in_registers(op)]
    made = [registers(value) for value in held if value.block is products[0].block]
    waiting = results + _OTHERS
    going_on = waiting + max(made, default=0) + _MEANWHILE
    if going_on > target.registers:
        return False
    threads = target.warp_size * layout_of(products[0].result).in_size(WARP)
    most = min(_ENOUGH, target.shared_bytes // max(1, shared))
    found = [min(most, target.register_file // (threads * count)) for count in (waiting, going_on)]
    return found[0] == found[1]
