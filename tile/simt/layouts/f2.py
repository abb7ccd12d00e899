"""Linear algebra over F2, the field of the two numbers 0 and 1.

A vector is a Python int whose bit i is its i-th coordinate, so adding two vectors is `^`. A matrix
is the sequence of its columns, the images of the unit vectors 1, 2, 4, and so on. A space is given
by vectors that span it. Every algorithm is Gaussian elimination, implemented by `Elimination`.

    >>> multiply([0b01, 0b11], 0b10)            # the second column
    3
    >>> basis([0b11, 0b01, 0b10])               # the third is the sum of the others
    [3, 1]
    >>> intersection([0b001, 0b010], [0b011, 0b100])
    [3]
    >>> common_complement([0b01], [0b10], within=[0b01, 0b10])
    [3]
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple


def union(vectors: Iterable[int]) -> int:
    """Return the bits that any of the vectors has."""
    return functools.reduce(operator.or_, vectors, 0)


def units(bits: int) -> list[int]:
    """Return the unit vectors, which are also the columns of the identity."""
    return [1 << bit for bit in range(bits)]


def multiply(columns: Sequence[int], vector: int) -> int:
    """Return the matrix times the vector: the sum of the columns that the vector's bits select."""
    image = 0
    while vector:
        lowest = vector & -vector
        image ^= columns[lowest.bit_length() - 1]
        vector ^= lowest
    return image


class Elimination:
    """A linear map that is defined on some vectors, and thereby on their span.

    Its rows have distinct leading bits: cancelling leading bits until nothing is left decides
    whether a vector is in the span, and computes its image.
    """

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, int]] = {}

    def reduce(self, vector: int, image: int = 0) -> tuple[int, int]:
        """Subtract defined vectors; return the remainder, and `image` less their images.

        The remainder is 0 if and only if the vector is in the span of the defined vectors.
        """
        rows = self._rows
        while (row := rows.get(vector.bit_length())) is not None:
            vector ^= row[0]
            image ^= row[1]
        return vector, image

    def define(self, vector: int, image: int = 0) -> int | None:
        """Define the image of `vector`.

        For a vector in the span of earlier ones, the map stays as it is, and the result is the
        difference between `image` and the value that the map has there; None for any other vector.
        """
        rest, difference = self.reduce(vector, image)
        if not rest:
            return difference
        self._rows[rest.bit_length()] = (rest, difference)
        return None

    def image(self, vector: int) -> int | None:
        """Return the image of `vector`; None outside the span of the defined vectors."""
        rest, image = self.reduce(vector)
        return None if rest else image


def extend(space: Iterable[int], within: Iterable[int]) -> list[int]:
    """Return vectors of `within` that complete `space`, each adding a dimension to it.

    They span a complement of `space` in the sum of both.
    """
    elimination = Elimination()
    for vector in space:
        elimination.define(vector)
    return [vector for vector in within if elimination.define(vector) is None]


def basis(vectors: Iterable[int]) -> list[int]:
    """Return those of the vectors that are not sums of earlier ones."""
    return extend((), vectors)


def rank(vectors: Iterable[int]) -> int:
    """Return the dimension of the span."""
    return len(basis(vectors))


def kernel(columns: Sequence[int]) -> list[int]:
    """Return a basis of the vectors that the matrix maps to 0."""
    elimination = Elimination()
    sums = (elimination.define(column, 1 << index) for index, column in enumerate(columns))
    return [combination for combination in sums if combination is not None]


def intersection(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """Return a basis of the intersection of two spaces.

    A vector of `b` that earlier ones and `a` sum to is, less those earlier ones, in both. Defining
    `a` as its own image and `b` as 0 leaves just that part of the sum.
    """
    elimination = Elimination()
    for vector in a:
        elimination.define(vector, vector)
    sums = (elimination.define(vector) for vector in basis(b))
    return [shared for shared in sums if shared is not None]


class Term(NamedTuple):
    """Bits of a number, shifted left by `shift`, or right for a negative one."""

    mask: int
    shift: int

    @property
    def reached(self) -> int:
        """The bits that it can set."""
        return self.mask << self.shift if self.shift > 0 else self.mask >> -self.shift


def terms(columns: Sequence[int]) -> list[Term]:
    """Return a matrix times a number as the XOR of masked shifts of the number.

    Bits that are shifted equally far share a term.

    >>> terms((1, 2, 8))                       # bits 0 and 1 stay where they are, bit 2 goes one up
    [Term(mask=3, shift=0), Term(mask=4, shift=1)]
    """
    masks: dict[int, int] = {}
    for bit, column in enumerate(columns):
        for position in range(column.bit_length()):
            if column >> position & 1:
                masks[position - bit] = masks.get(position - bit, 0) | 1 << bit
    return [Term(mask, shift) for shift, mask in sorted(masks.items())]


def common_complement(p: Sequence[int], q: Sequence[int], within: Sequence[int]) -> list[int]:
    """Return a largest space inside `within` that intersects both `p` and `q` only in 0.

    `p` and `q` are inside `within`. Its dimension is that of `within` less that of the larger of
    the two: a vector of `p` alone plus one of `q` alone is a sum that is in neither, and vectors
    outside the sum of both are taken as they are.
    """
    both = intersection(p, q)
    pairs = zip(extend(both, p), extend(both, q), strict=False)
    return [a ^ b for a, b in pairs] + extend([*p, *q], within)
