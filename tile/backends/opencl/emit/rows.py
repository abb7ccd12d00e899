"""Registers that are told apart by a number, so that a loop can go over them.

Where fragments are long, their registers are not variables each but elements of an array, and an
operation on them is a loop. Which register of a fragment an operation takes is then an `Index`: a
constant, or what the bits of loop variables make of it. Registers that `pick` chooses, and what
layouts add to a thread's place, are linear in these bits (over F2), so they stay expressions:

    >>> half = Index.of("r", 8).through((0, 1, 2))     # bit 0 chooses nothing, bits 1 and 2 do
    >>> half.text()
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
    """A number: `offset`, XOR the images of the bits that are set in each of the variables."""

    offset: int = 0
    variables: tuple[tuple[str, Images], ...] = ()

    @classmethod
    def of(cls, name: str, count: int, step: int = 1) -> Index:
        """`step` times a variable that is below `count`; both are powers of two."""
        bits = (count - 1).bit_length()
        return cls(0, ((name, tuple(step << bit for bit in range(bits))),))

    def times(self, factor: int) -> Index:
        """Multiplied by a power of two."""
        return self.through(tuple(factor << bit for bit in range(32)))

    def plus(self, offset: int) -> Index:
        """With bits that no variable reaches."""
        return Index(self.offset ^ offset, self.variables)

    def and_(self, other: Index) -> Index:
        """With the bits of another one, which are others than its own."""
        return Index(self.offset ^ other.offset, self.variables + other.variables)

    def through(self, images: Images, offset: int = 0) -> Index:
        """What a linear map, and then an XOR with `offset`, make of it."""
        moved = [
            (name, tuple(mapped(images, number) for number in own)) for name, own in self.variables
        ]
        still = tuple((name, own) for name, own in moved if any(own))
        return Index(mapped(images, self.offset) ^ offset, still)

    def down(self, bits: int) -> Index:
        """Without its lowest bits."""
        return self.through((0,) * bits + tuple(1 << bit for bit in range(32)))

    @property
    def reached(self) -> int:
        """The bits that variables can set."""
        found = 0
        for _, images in self.variables:
            for image in images:
                found |= image
        return found

    def text(self) -> str:
        """As an operand in C."""
        parts = [part for name, images in self.variables for part in _parts(name, images)]
        reached, overlap = 0, False
        for _, bits in parts:
            overlap |= bool(reached & bits)
            reached |= bits
        if self.offset or not parts:
            overlap |= bool(reached & self.offset)
            parts.append((str(self.offset), self.offset))
        joined = (" ^ " if overlap else " + ").join(text for text, _ in parts)
        return joined if len(parts) == 1 else f"({joined})"


def mapped(images: Images, number: int) -> int:
    """What a linear map makes of a number, from the images of its bits."""
    result = 0
    for bit, image in enumerate(images):
        if number >> bit & 1:
            result ^= image
    return result


def linear(numbers: Sequence[int]) -> tuple[Images, int] | None:
    """The linear map and offset that give these numbers for 0, 1, ...; None if none does."""
    if len(numbers) & (len(numbers) - 1):
        return None
    offset = numbers[0]
    bits = (len(numbers) - 1).bit_length()
    images = tuple(numbers[1 << bit] ^ offset for bit in range(bits))
    found = all(mapped(images, i) ^ offset == number for i, number in enumerate(numbers))
    return (images, offset) if found else None


def _parts(name: str, images: Images) -> Iterator[tuple[str, int]]:
    whole = (1 << len(images)) - 1
    for term in terms(images):
        text = name if term.mask == whole else f"({name} & {term.mask})"
        if term.shift and term.mask == whole & ~((1 << max(0, -term.shift)) - 1):
            text = name  # what is masked is shifted out
        if term.shift > 0:
            text = f"{text} * {1 << term.shift}"
        elif term.shift:
            text = f"({text} >> {-term.shift})"
        yield text, term.reached


class Row(Sequence[str]):
    """The registers of a value, by number; `at` may write what an expression needs first."""

    def __init__(
        self, count: int, at: Callable[[Index], str], *, array: str = "", cost: int = 0
    ) -> None:
        """`array`: the array that they are elements of, if they are just that.

        `cost`: how many operations `at` takes.
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


def array_row(name: str, count: int) -> Row:
    """The elements of an array."""
    return Row(count, lambda index: f"{name}[{bare(index.text())}]", array=name)


def bare(text: str) -> str:
    """An expression without the parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth and at < len(text) - 1:
            return text
    return text[1:-1]


def same(count: int, text: str) -> Row:
    """One operand in all registers."""
    return Row(count, lambda index: text)
