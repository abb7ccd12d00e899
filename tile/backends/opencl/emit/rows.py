"""Register arrays: the registers of a long fragment, indexed by an expression of loop variables.

The registers of a long fragment are the elements of an array instead of variables, and an operation
on them is a loop. An `Index` selects a register: a constant, or a function of loop variables that
is linear over F2 in their bits. The registers that `pick` selects and the offsets of a layout are
linear in this sense, too, so composing them with an index yields an expression again:

    >>> index = Index.of("r", 8).through((0, 1, 2))     # ignore bit 0, move bits 1 and 2 down
    >>> index.text()
    '(r >> 1)'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from tile.simt.unrolling import terms

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
            (name, tuple(mapped(images, number) for number in own)) for name, own in self.variables
        ]
        nonzero = tuple((name, own) for name, own in variables if any(own))
        return Index(mapped(images, self.offset) ^ offset, nonzero)

    def down(self, bits: int) -> Index:
        """Shift right by a number of bits."""
        return self.through((0,) * bits + tuple(1 << bit for bit in range(32)))

    @property
    def reached(self) -> int:
        """Return the bits that variables can set."""
        bits = 0
        for _, images in self.variables:
            for image in images:
                bits |= image
        return bits

    def text(self) -> str:
        """Return the index as a C operand."""
        parts = [term for name, images in self.variables for term in _terms(name, images)]
        reached, overlap = 0, False
        for _, bits in parts:
            overlap |= bool(reached & bits)
            reached |= bits
        if self.offset or not parts:
            overlap |= bool(reached & self.offset)
            parts.append((str(self.offset), self.offset))
        text = (" ^ " if overlap else " + ").join(text for text, _ in parts)
        return text if len(parts) == 1 else f"({text})"


def mapped(images: Images, number: int) -> int:
    """Apply a linear map, given by the images of the bits, to a number."""
    result = 0
    for bit, image in enumerate(images):
        if number >> bit & 1:
            result ^= image
    return result


def linear(numbers: Sequence[int]) -> tuple[Images, int] | None:
    """Return the linear map and offset that map 0, 1, ... to these numbers; None without one."""
    if len(numbers) & (len(numbers) - 1):
        return None
    offset = numbers[0]
    bits = (len(numbers) - 1).bit_length()
    images = tuple(numbers[1 << bit] ^ offset for bit in range(bits))
    is_linear = all(mapped(images, i) ^ offset == number for i, number in enumerate(numbers))
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
