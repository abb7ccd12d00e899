"""Register arrays: the registers of a long fragment, indexed by an expression of loop variables.

The registers of a long fragment are the elements of an array instead of variables, and an operation
on them is a loop. A fragment with more registers than the device's limit (`OpenclTuning.unrolled`)
is a register array. So is a shorter fragment that a loop over a long one indexes: the offsets of a
long load, or the operand of a `frag_shuffle` with a long result. `ArraySelection` decides this, and
which operations are computed at their uses.

An `Index` selects a register: a constant, or a function of loop variables that is linear over F2 in
their bits. The registers that `frag_shuffle` selects and the offsets of a layout are linear in this
sense, too, so composing them with an index yields an expression again:

    >>> index = Index.of("r", 8).through((0, 1, 2))     # ignore bit 0, move bits 1 and 2 down
    >>> index.text()
    '(r >> 1)'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

from tile.backends.opencl.target import Capabilities
from tile.codegen.emitter import overlap
from tile.ir.core import Function, Operation, Value
from tile.ir.extents import is_power_of_two
from tile.ir.ops import arith, memory
from tile.ir.types import Fragment, Pointer, count_of
from tile.simt import ops
from tile.simt.layouts.f2 import multiply, terms, union

Images = tuple[int, ...]


@dataclass(frozen=True)
class Index:
    """A number: `offset` XOR the images of the bits that are set in each of the variables."""

    offset: int = 0
    variables: tuple[tuple[str, Images], ...] = ()

    @classmethod
    def of(cls, name: str, count: int, step: int = 1) -> Index:
        """Return `step` times a variable that is less than `count`; both are powers of two."""
        bits = (count - 1).bit_length()
        return cls(0, ((name, tuple(step << bit for bit in range(bits))),))

    def times(self, scale: int) -> Index:
        """Multiply by a power of two."""
        return self.through(tuple(scale << bit for bit in range(32)))

    def plus(self, offset: int) -> Index:
        """Add an offset whose bits no variable sets."""
        return Index(self.offset ^ offset, self.variables)

    def and_(self, other: Index) -> Index:
        """Add an index that has no bit in common with this one."""
        return Index(self.offset ^ other.offset, self.variables + other.variables)

    def through(self, images: Images, offset: int = 0) -> Index:
        """Apply a linear map, and then an XOR with `offset`."""
        variables = [
            (name, tuple(multiply(images, number) for number in own))
            for name, own in self.variables
        ]
        nonzero = tuple((name, own) for name, own in variables if any(own))
        return Index(multiply(images, self.offset) ^ offset, nonzero)

    def down(self, bits: int) -> Index:
        """Shift right by a number of bits."""
        return self.through((0,) * bits + tuple(1 << bit for bit in range(32)))

    @property
    def reached(self) -> int:
        """Return the bits that variables can set."""
        return union([image for _, images in self.variables for image in images])

    def text(self) -> str:
        """Return the index as a C operand."""
        parts = [term for name, images in self.variables for term in _terms(name, images)]
        if self.offset or not parts:
            parts.append((str(self.offset), self.offset))
        text = (" ^ " if overlap(bits for _, bits in parts) else " + ").join(t for t, _ in parts)
        return text if len(parts) == 1 else f"({text})"


def linear(numbers: Sequence[int]) -> tuple[Images, int] | None:
    """Return the linear map and offset that map 0, 1, ... to these numbers; None without one."""
    if len(numbers) & (len(numbers) - 1):
        return None
    offset = numbers[0]
    bits = (len(numbers) - 1).bit_length()
    images = tuple(numbers[1 << bit] ^ offset for bit in range(bits))
    is_linear = all(multiply(images, i) ^ offset == number for i, number in enumerate(numbers))
    return (images, offset) if is_linear else None


def _terms(name: str, images: Images) -> Iterator[tuple[str, int]]:
    """Yield the C terms of a variable under a linear map, and the bits that each can set."""
    whole = (1 << len(images)) - 1
    for term in terms(images):
        text = name if term.mask == whole else f"({name} & {term.mask})"
        if term.shift and term.mask == whole & ~((1 << max(0, -term.shift)) - 1):
            text = name  # the shift discards the bits that the mask would clear
        if term.shift > 0:
            text = f"{text} * {1 << term.shift}"
        elif term.shift:
            text = f"({text} >> {-term.shift})"
        yield text, term.reached


class RegisterArray(Sequence[str]):
    """The registers of a value by index; `at` may emit statements that an operand needs."""

    def __init__(
        self, count: int, at: Callable[[Index], str], *, array: str = "", cost: int = 0
    ) -> None:
        """Create an array of `count` registers.

        array: the name of the C array whose elements they are, if they are stored.
        cost: the number of operations that `at` emits.
        """
        self._count = count
        self.at = at
        self.array = array
        self.cost = cost

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> list[str]: ...
    def __getitem__(self, number: int | slice) -> str | list[str]:
        if isinstance(number, slice):
            return [self[i] for i in range(self._count)[number]]
        if not 0 <= number < self._count:
            raise IndexError(number)
        return self.at(Index(number))


def stored_array(name: str, count: int) -> RegisterArray:
    """Return the elements of a C array."""
    return RegisterArray(count, lambda index: f"{name}[{bare(index.text())}]", array=name)


def bare(text: str) -> str:
    """Remove the parentheses around an expression, if one pair encloses all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth and position < len(text) - 1:
            return text
    return text[1:-1]


def splat(count: int, text: str) -> RegisterArray:
    """Return one operand in all registers."""
    return RegisterArray(count, lambda index: text)


# Operations whose operands have different numbers of registers.
_UNEVEN = frozenset(
    {
        ops.mma.fma_dot,
        ops.thread.frag_shuffle,
        ops.thread.frag_gather,
        ops.thread.shared_load,
        ops.thread.shared_store,
    }
)
# Operations that cost no more than an access to the array that would store their result.
_CHEAP = frozenset(
    {
        arith.add,
        arith.sub,
        arith.mul,
        arith.and_,
        arith.or_,
        arith.xor,
        arith.not_,
        arith.neg,
        arith.shl,
        arith.shr,
        arith.cmp,
        arith.min_,
        arith.max_,
        arith.cast,
        arith.bitcast,
        arith.select,
        memory.addptr,
    }
)
_SIMPLE = re.compile(r"\w+(\[\w+\])?|-?[\w.]+")


def is_simple(text: str) -> bool:
    """Return True for an expression that needs no variable: a name, an element or a literal."""
    return _SIMPLE.fullmatch(text) is not None


def most_unrolled(function: Function, device: Capabilities) -> int:
    """Return the number of registers above which a fragment is an array.

    It is the device's limit, halved until the function has few enough register variables.
    """
    counts = [count_of(value.type) for op in function.walk() for value in op.results]
    tuning = device.tuning
    most = tuning.unrolled
    while most > tuning.least_unrolled and sum(n for n in counts if n <= most) > tuning.variables:
        most //= 2
    return most


@dataclass
class ArraySelection:
    """The decisions for one function.

    Fragments of up to `unrolled` registers are variables. An expression of up to `recomputed_ops`
    cheap operations is recomputed instead of stored.
    """

    unrolled: int
    recomputed_ops: int
    _arrays: dict[Value, bool] = field(default_factory=dict)

    def is_array(self, value: Value) -> bool:
        """Return True if a value's registers are an array."""
        if value not in self._arrays:
            self._arrays[value] = self._decide(value)
        return self._arrays[value]

    def _decide(self, value: Value) -> bool:
        count = count_of(value.type)
        if count < 2 or not is_power_of_two(count):
            return False
        if count > self.unrolled:
            return True
        uneven = [op for op in value.users if op.defn in _UNEVEN]
        if value.op is not None and value.op.defn in _UNEVEN:
            uneven.append(value.op)
        return any(self._is_long(op) for op in uneven)

    def _is_long(self, op: Operation) -> bool:
        if op.defn is ops.thread.frag_shuffle:
            return count_of(op.result.type) > self.unrolled
        values = [*op.inputs, *op.results]
        return any(count_of(v.type) > self.unrolled for v in values if _is_fragment(v))

    def is_deferred(self, op: Operation, cost: int) -> bool:
        """Return True if an operation on register arrays is computed at its uses.

        cost: the number of operations in the expression, including deferred operands.
        """
        users = list(op.result.users)
        if any(user.defn.terminator for user in users):
            return False  # its operands may be loop-carried variables, which the loop overwrites
        if op.defn in _CHEAP and _is_integral(op) and cost <= self.recomputed_ops:
            return True
        return (
            len(op.result.uses) == 1
            and users[0].parent is op.parent
            and users[0].defn not in _UNEVEN
            and not users[0].regions
        )


def _is_fragment(value: Value) -> bool:
    return isinstance(value.type, Fragment)


def _is_integral(op: Operation) -> bool:
    """Return True if all operands and the result are integers (i1 too) or pointers."""
    elements = [v.type.element for v in (*op.inputs, op.result)]
    return all(isinstance(ty, Pointer) or not ty.is_floating() for ty in elements)
