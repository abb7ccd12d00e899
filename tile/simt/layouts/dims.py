"""Named dimensions of power-of-two sizes, and their bits packed into one int.

>>> dims = named({"dim0": 4, "dim1": 8})
>>> dims
(('dim0', 2), ('dim1', 3))
>>> bin(pack([2, 5], dims, "an index"))           # dim0 above dim1, as NumPy flattens arrays
'0b10101'
>>> unpack(0b10101, dims)
[2, 5]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tile.errors import TileError
from tile.ir.extents import is_power_of_two

# Holders of elements: the registers of a lane, lanes of a warp, warps of a block of threads,
# blocks of a cluster, and the offsets in shared memory.
REGISTER, LANE, WARP, BLOCK, OFFSET = "register", "lane", "warp", "block", "offset"

# Dimensions in order, each with its number of bits.
Dims = tuple[tuple[str, int], ...]


class LayoutError(TileError):
    """An impossible layout, or an impossible operation on layouts."""


def require(condition: bool, message: str) -> None:
    """Raise `LayoutError` unless the condition holds."""
    if not condition:
        raise LayoutError(message)


def axis_name(axis: int) -> str:
    """Return the name of the output dimension of a tile's axis."""
    return f"dim{axis}"


def log2_of(size: int, what: str) -> int:
    """Return the number of bits that index `size` things."""
    if not is_power_of_two(size):
        raise LayoutError(f"{what} is a power of two, and {size} is not")
    return size.bit_length() - 1


def named(sizes: Mapping[str, int] | Sequence[int]) -> Dims:
    """Return dimensions of these sizes; a sequence is a tile's shape, of dim0, dim1, and so on."""
    if not isinstance(sizes, Mapping):
        sizes = {axis_name(axis): size for axis, size in enumerate(sizes)}
    return tuple([(name, log2_of(size, f"the size of {name}")) for name, size in sizes.items()])


def sizes(dims: Dims) -> dict[str, int]:
    """Return the sizes of dimensions by name."""
    return {name: 1 << bits for name, bits in dims}


def bits_of(dims: Dims) -> int:
    """Return the total number of bits of the dimensions."""
    return sum([bits for _, bits in dims])


@lru_cache(maxsize=1024)
def bit_positions(dims: Dims) -> dict[str, int]:
    """Return each dimension's lowest bit in a packed index, the last dimension lowest."""
    positions: dict[str, int] = {}
    position = 0
    for name, bits in reversed(dims):
        positions[name] = position
        position += bits
    return positions


def pack(index: Sequence[int], dims: Dims, what: str) -> int:
    """Pack an index into each dimension into one int. Raises `LayoutError` that names `what`."""
    if len(index) != len(dims):
        raise LayoutError(f"{what} is {list(index)}; it takes one number for each of {sizes(dims)}")
    packed = 0
    for number, (name, bits) in zip(index, dims, strict=True):
        if number < 0 or number >> bits:
            raise LayoutError(f"{what} is {list(index)}; along {name} are 0 to {(1 << bits) - 1}")
        packed = packed << bits | number
    return packed


def unpack(packed: Any, dims: Dims) -> list[Any]:
    """Return the indices, ints or arrays, that are packed in an int or an array."""
    at = bit_positions(dims)
    return [packed >> at[name] & (1 << bits) - 1 for name, bits in dims]


# A move of a part of a packed index: its lowest bit, a mask of its length, its new lowest bit.
Move = tuple[int, int, int]


def bit_moves(old: Dims, new: Dims, up: Mapping[str, int]) -> list[Move]:
    """Return the moves that repack an index from dimensions `old` to `new`.

    A dimension goes to its position in `new`, shifted up there by the bits that `up` has for its
    name, or down for a negative number. Bits that do not fit are dropped.
    """
    before, after, widths = bit_positions(old), bit_positions(new), dict(new)
    parts = []
    for name, bits in old:
        raised = up.get(name, 0)
        above, below = max(raised, 0), max(-raised, 0)
        width = min(bits - below, widths.get(name, 0) - above)
        if width > 0:
            parts.append((before[name] + below, (1 << width) - 1, after[name] + above))
    return parts


def move_bits(packed: int, how: Sequence[Move]) -> int:
    """Return a packed index with its parts moved."""
    image = 0
    for place, mask, new in how:
        image |= (packed >> place & mask) << new
    return image


def subtract_dims(whole: Dims, part: Dims) -> Dims | None:
    """Return the bits per dimension of `whole` less those of `part`; None if `part` has more."""
    left = dict(whole)
    for name, bits in part:
        if left.get(name, -1) < bits:
            return None
        left[name] -= bits
    return tuple(left.items())


def check_names(dims: Sequence[str]) -> None:
    """Raise for a duplicate name, or one that the text of a layout cannot have."""
    if len({*dims}) < len(dims):
        raise LayoutError(f"a dimension is named twice in {list(dims)}")
    for name in dims:
        if not name.isidentifier():
            raise LayoutError(f"a dimension has a name as in Python, and {name!r} is not one")


def check_permutation(names: Sequence[str], own: Sequence[str]) -> None:
    """Raise unless the names are a permutation of a layout's own."""
    if sorted(names) != sorted(own):
        raise LayoutError(f"{list(names)} is not an order of the dimensions {list(own)}")
