"""Lists of arrays, whose blocks are the programs of few launches.

Models have hundreds of small parameters, and a launch for each costs more than its work. A launch
takes the addresses of up to `MOST` arrays, and has programs for the blocks of all: a program
compares its index with those at which arrays start, and selects an array (`item_of`). Lists are
padded with empty arrays to a power of two, so that few kernels are compiled.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tile
import tile.language as tl
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ops.core.call import BF16, F16, F32, Call, Operand
from tile.short_repr import short_repr

BLOCK = 1024  # elements of a program
# Arrays of a launch: powers of two. Three lists of as many take 2 KB of parameters, of 4; OpenCL
# guarantees 1 KB.
MOST, MOST_BY_BACKEND = 32, {"nvptx": 64}
DTYPES = (F16, BF16, F32)
GROUP = tl.constexpr(8)  # arrays of which one branch is for all


@tile.jit
def items(lists, k: tl.constexpr):
    its: Any = ()
    for n in tl.static_range(len(lists)):
        its += (lists[n][k],)
    return its


@tile.jit
def selected(condition, these, others):
    its: Any = ()
    for n in tl.static_range(len(these)):
        its += (tl.where(condition, these[n], others[n]),)
    return its


@tile.jit
def item_of(lists, starts, program, COUNT: tl.constexpr):
    """Return the items of lists for the array of which a program has a block."""
    its = items(lists, 0)
    for first in tl.static_range(0, COUNT, GROUP):
        END: tl.constexpr = min(first + GROUP, COUNT)
        if (program >= starts[first]) & (program < starts[END]):
            its = items(lists, first)
            for k in tl.static_range(first + 1, END):
                its = selected(program >= starts[k], items(lists, k), its)
    return its


@dataclass(frozen=True)
class Chunk:
    """The arrays of one launch, `indices` of a list: where their programs start, and their sizes.

    count: of arrays, with those that pad it.
    """

    indices: range
    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.sizes)

    def of(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arrays of a list for this launch; the first one pads them."""
        own = [values[index] for index in self.indices]
        return (*own, *[own[0]] * (self.count - len(own)))


def chunks(backend: str, sizes: Sequence[int]) -> Iterator[Chunk]:
    """Yield the launches for arrays of these sizes."""
    most = MOST_BY_BACKEND.get(backend, MOST)
    for first in range(0, len(sizes), most):
        indices = range(first, min(first + most, len(sizes)))
        own = [sizes[index] for index in indices]
        own += [0] * (tile.next_power_of_2(len(own)) - len(own))
        starts = itertools.accumulate((tile.cdiv(size, BLOCK) for size in own), initial=0)
        yield Chunk(indices, tuple(starts), tuple(own))


def arrays_of(call: Call, name: str, values: Any, like: Sequence[Operand] = ()) -> list[Operand]:
    """Return the arrays of a list, all of one type; of the shapes of `like` unless it is empty."""
    if not isinstance(values, list | tuple):
        raise ArgumentTypeError(
            f"{call.op}: `{name}` is {short_repr(values)}; it is a list of arrays"
        )
    if like and len(values) != len(like):
        raise ArgumentValueError(
            f"{call.op}: `{name}` has {len(values)} arrays, and `xs` {len(like)}"
        )
    operands: list[Operand] = []
    for index, value in enumerate(values):
        kind = (like or operands)[0].dtype if like or operands else None
        operand = call.array(
            f"{name}[{index}]",
            value,
            dtypes=DTYPES if kind is None else (kind,),
            rank=None if not like else len(like[index].shape),
            shape=like[index].shape if like else None,
        )
        operands.append(operand.contiguous())
    return operands
