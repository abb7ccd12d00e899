"""Instructions for one thread of a warp, the one that `elect.sync` chooses.

Adjacent instructions are elected together: an mbarrier's arrive and the loads that it waits for.
The other threads branch around them. With a predicate for each instruction instead, ptxas computes
the operands of TMA loads in registers of each thread and moves them to uniform ones, which takes
some ten instructions more for each load. In loops instructions have predicates all the same:
nothing is scheduled across a branch, and a kernel of attention that has 128 registers spilled 84
bytes.
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
    elected = Elected(len(builder.lines), tuple(instructions), tuple(operands))
    before = builder.elected
    if before is not None and before.operands[0] == operands[0] and _is_adjacent(builder, before):
        builder.lines[before.line] = ""
        elected = before.followed_by(elected)
    if op is not None and op.in_loop:
        body = " ".join([f"@p {each};" for each in elected.instructions])
    else:
        body = " ".join(["@!p bra done;", *(f"{each};" for each in elected.instructions), "done:"])
    text = f"{{ .reg .pred p; elect.sync _|p, 0xffffffff; and.pred p, p, $0; {body} }}"
    assemble(builder, text, [], elected.operands, memory=True, convergent=True)
    builder.elected = elected


def _is_adjacent(builder: FunctionBuilder, before: Elected) -> bool:
    """Return True if only instructions without effects were emitted since."""
    return all(map(_PURE.match, builder.lines[before.line + 1 :]))
