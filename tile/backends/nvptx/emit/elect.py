"""Instructions for one thread of a warp, the one that `elect.sync` chooses.

Adjacent instructions are elected together: an mbarrier's arrive and the loads that it waits for.
The other threads branch around them. With a predicate for each instead, ptxas computes the operands
of TMA loads in registers of each thread and moves them to uniform ones, which takes some ten
instructions more for each load; and it schedules across TMA stores after a loop, which moves
instructions of the loop as well: a matmul of 8192 cubed in fp8 takes 1975 us instead of 1919, and
attention of heads of 128 1839 instead of 1814, whereas a matmul of 4096 x 16 x 4096 takes 12.0
instead of 12.3 (H200, 2026-11-29).

In loops, and at the start of the function, instructions have predicates all the same: nothing is
scheduled across a branch, and a kernel of attention that has 128 registers spilled 84 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tile.backends.nvptx.emit.function_builder import Elected, FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import Operand, assemble
from tile.ir.core import Operation

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
    branches = op is not None and not op.in_loop
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
