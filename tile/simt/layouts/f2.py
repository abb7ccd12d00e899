"""Linear algebra over F2, the field of the two numbers 0 and 1.

A vector is a Python int whose bit i is its i-th coordinate, so adding two vectors is `^`. A matrix
is the sequence of its columns, the images of the unit vectors 1, 2, 4, and so on. A space is given
by vectors that span it. Everything here is Gaussian elimination, told once by `Elimination`.

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

from collections.abc import Iterable, Sequence


def units(bits: int) -> list[int]:
    """The unit vectors, which are also the columns of the identity."""
    return [1 << bit for bit in range(bits)]


def multiply(columns: Sequence[int], vector: int) -> int:
    """The matrix times the vector: the sum of the columns that the vector's bits choose."""
    image = 0
    while vector:
        lowest = vector & -vector
        image ^= columns[lowest.bit_length() - 1]
        vector ^= lowest
    return image


class Elimination:
    """A linear map that is known on some vectors, and so on all their sums.

    Its rows are kept by leading bit, no two alike: whether a vector is a sum of those defined, and
    what its image is then, shows by cancelling leading bits until nothing is left.
    """

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, int]] = {}

    def reduce(self, vector: int, image: int = 0) -> tuple[int, int]:
        """Take known vectors away while they help: what is left, and `image` less their images.

        The rest is 0 if and only if the vector is in the span of those defined.
        """
        rows = self._rows
        while (row := rows.get(vector.bit_length())) is not None:
            vector ^= row[0]
            image ^= row[1]
        return vector, image

    def define(self, vector: int, image: int = 0) -> int | None:
        """Say that the map takes `vector` to `image`.

        For a vector that earlier ones sum to, the map stays as it is, and what comes back is by how
        much `image` differs from the value that it already has there; None for any other.
        """
        rest, difference = self.reduce(vector, image)
        if not rest:
            return difference
        self._rows[rest.bit_length()] = (rest, difference)
        return None

    def image(self, vector: int) -> int | None:
        """Where the map takes `vector`; None outside the span of the vectors defined."""
        rest, image = self.reduce(vector)
        return None if rest else image


def extend(space: Iterable[int], within: Iterable[int]) -> list[int]:
    """Vectors of `within` that complete `space`, each adding a dimension to it.

    They span a complement of `space` in the sum of both.
    """
    known = Elimination()
    for vector in space:
        known.define(vector)
    return [vector for vector in within if known.define(vector) is None]


def basis(vectors: Iterable[int]) -> list[int]:
    """Those of the vectors that are no sum of earlier ones."""
    return extend((), vectors)


def rank(vectors: Iterable[int]) -> int:
    """The dimension of what the vectors span."""
    return len(basis(vectors))


def kernel(columns: Sequence[int]) -> list[int]:
    """A basis of the vectors that the matrix takes to 0."""
    known = Elimination()
    sums = (known.define(column, 1 << index) for index, column in enumerate(columns))
    return [combination for combination in sums if combination is not None]


def intersection(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """A basis of the space that both share.

    A vector of `b` that earlier ones and `a` sum to is, less those earlier ones, in both. Defining
    `a` as its own image and `b` as 0 leaves just that part of the sum.
    """
    known = Elimination()
    for vector in a:
        known.define(vector, vector)
    sums = (known.define(vector) for vector in basis(b))
    return [shared for shared in sums if shared is not None]


def common_complement(p: Sequence[int], q: Sequence[int], within: Sequence[int]) -> list[int]:
    """A largest space inside `within` that shares nothing but 0 with `p`, nor with `q`.

    `p` and `q` are inside `within`. Of dimension `within` less the larger of the two: pairing a
    vector of `p` alone with one of `q` alone gives a sum that is in neither, and what neither
    reaches can be taken as it is.
    """
    both = intersection(p, q)
    pairs = zip(extend(both, p), extend(both, q), strict=False)
    return [a ^ b for a, b in pairs] + extend([*p, *q], within)
