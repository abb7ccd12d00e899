"""Instructions for one thread of a warp, the one that `elect.sync` chooses.

Adjacent instructions are elected together: an mbarrier's arrive and the loads that it waits for.
The other threads branch around TMA loads. With a predicate for each instead, ptxas computes their
operands in registers of each thread and moves them to uniform ones, which takes some ten
instructions more for each load. In loops instructions have predicates all the same: nothing is
scheduled across a branch, and a kernel of attention that has 128 registers spilled 84 bytes. So
have those that are no loads: branches around them gain nothing, and a matmul of 4096 x 16 x 4096,
which loads nothing by TMA, takes 14.5 us with them instead of 14.4 (H200, 2026-11-29).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tile.backends.nvptx.emit.function_builder import Elected, FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import Operand, assemble
from tile.ir.core import Operation
from tile.simt import ops

_LOADS = (
    *(ops.tma.mbarrier_arrive_expect_tx, ops.tma.tma_load, ops.tma.tma_load_im2col),
    ops.cluster.tma_load_multicast,
)
_PURE = re.compile(r"  %\S+ = (?!call |load |phi )")


def elect_one(
    builder: FunctionBuilder,
    instructions: Sequence[str],
    operands: Sequence[Operand],
    op: Operation | None = None,
) -> None:
    """Emit instructions for one thread of the warp for which the first operand is true.

    op: the operation that they are for; None at the start of the function.
    """
    branches = op is not None and op.defn in _LOADS and not op.in_loop
    elected = Elected(len(builder.lines), tuple(instructions), tuple(operands), branches)
    before = builder.elected
    if (
        before is not None
        and before.branches == branches
        and _is_adjacent(builder, before, elected)
    ):
        builder.lines[before.line] = ""
        elected = before.followed_by(elected)
    if branches:
        body = " ".join(["@!p bra done;", *(f"{each};" for each in elected.instructions), "done:"])
    else:
        body = " ".join([f"@p {each};" for each in elected.instructions])
    text = f"{{ .reg .pred p; elect.sync _|p, 0xffffffff; and.pred p, p, $0; {body} }}"
    assemble(builder, text, [], elected.operands, memory=True, convergent=True)
    builder.elected = elected


def _is_adjacent(builder: FunctionBuilder, before: Elected, elected: Elected) -> bool:
    """Return True if only instructions without effects are between, and the condition is equal."""
    between = builder.lines[before.line + 1 :]
    return before.operands[0] == elected.operands[0] and all(map(_PURE.match, between))
