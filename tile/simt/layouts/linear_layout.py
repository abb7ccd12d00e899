"""Linear layouts: which element of a tile each register, lane and warp holds, as one linear map.

Four lanes hold a 4x4 tile, each a square of it in four registers, written lane:register here.

        0:0 0:1 1:0 1:1
        0:2 0:3 1:2 1:3
        2:0 2:1 3:0 3:1
        2:2 2:3 3:2 3:3

Which element is in register r of lane l? A layout answers for all sixteen, yet it is written down
in four steps, one for each *bit* of r and of l:

    >>> square = LinearLayout.of(
    ...     {"register": [[0, 1], [1, 0]], "lane": [[0, 2], [2, 0]]}, [4, 4])
    >>> square
    #linear{register = [[0,1],[1,0]], lane = [[0,2],[2,0]] -> dim0 = 4, dim1 = 4}

Bit 0 of the register moves one column on, bit 1 one row down; bit 0 of the lane moves two columns
on, bit 1 two rows down. These steps are the *bases*. An index takes the steps of its set bits, and
they add up by XOR:

    >>> square.apply(register=1, lane=0)
    {'dim0': 0, 'dim1': 1}
    >>> square.apply(register=3, lane=2)            # [0,1] ^ [1,0] ^ [2,0]
    {'dim0': 3, 'dim1': 1}

XOR makes the map linear over F2, the field of 0 and 1: `apply(x ^ y) == apply(x) ^ apply(y)`. Its
matrix has a column for each input bit and a row for each coordinate bit, and the questions that a
compiler has about layouts are questions of linear algebra about twenty columns.

**Products** put layouts inside one another. On the left stands the inner one, in the lowest bits:

    >>> registers = identity1d(2, "register", "dim0")
    >>> lanes = identity1d(4, "lane", "dim0")
    >>> registers * lanes                           # two registers in a row, then the next lane
    #linear{register = [[1]], lane = [[2],[4]] -> dim0 = 8}
    >>> lanes * registers                           # lanes in a row, then the next register
    #linear{lane = [[1],[2]], register = [[4]] -> dim0 = 8}

**Inverses** answer the opposite question: which index holds this element? `@` composes maps: the
product of their matrices. So `a.invert() @ b` takes each index of `b` to the index where `a` has
its element, which is the data movement of a conversion from one to the other:

    >>> (lanes * registers).invert() @ (registers * lanes)
    #linear{register = [[1,0]], lane = [[2,0],[0,1]] -> lane = 4, register = 2}

Register 1 has its element in lane 1 of the other, lane 1 in lane 2, and lane 2 in register 1.

**Duplicates** come from zero bases: the bit changes and the element does not. After a sum along
dim1, registers 0 and 1 hold the sum of the same row, and so do lanes 0 and 1. Dropping an output
has that effect on a layout, and `free_variables` has a mask of the bits that lead to copies:

    >>> sums = square.select_outs("dim0")
    >>> sums
    #linear{register = [[0],[1]], lane = [[0],[2]] -> dim0 = 4}
    >>> sums.free_variables()                       # bit 0 of either
    {'register': 1, 'lane': 1}

Such a layout is surjective but not injective, and has no inverse. `pseudo_invert` finds one holder
of each element, of all holders the one with zeros there:

    >>> sums.pseudo_invert()
    #linear{dim0 = [[2,0],[0,2]] -> register = 4, lane = 4}

**Division** undoes products: it decides whether a layout consists of copies of a smaller one. An
instruction that takes two contiguous elements from each of two lanes fits a layout that its own
layout divides:

    >>> instruction = identity1d(2, "register", "dim1") * identity1d(2, "lane", "dim1")
    >>> square.divide_left(instruction)             # over what it is to be repeated
    #linear{register = [[1,0]], lane = [[2,0]] -> dim0 = 4, dim1 = 1}
    >>> print(square.divide_left(identity1d(4, "register", "dim1")))
    None

**Shared memory** is a layout of `offset`. A swizzle, which XORs bits of the row into the column, is
as linear as all else. Its inverse after a layout of registers has the addresses of each lane:

    >>> swizzled = LinearLayout.of({"offset": [[0, 1], [0, 2], [1, 1], [2, 2]]}, [4, 4])
    >>> swizzled.invert() @ square
    #linear{register = [[1],[5]], lane = [[2],[10]] -> offset = 16}

**Order**: `columns` and `reshape_outs` pack the bits of several dimensions as NumPy flattens
arrays: the last dimension named has the lowest bits.

**Text**: `parse_layout` is the inverse of `str`.

    layout = "#linear{" [input {"," input}] "->" [output {"," output}] "}"
    input  = name "=" "[" [basis {"," basis}] "]"          one basis for each bit, lowest first
    basis  = "[" [number {"," number}] "]"                 one coordinate for each output
    output = name "=" number                               its size

Space may stand between any two words. The text has no brace but its first and last, so one that is
part of a longer text, such as a type's, ends at the first `}`.

    >>> parse_layout("#linear{register = [[1], [2]], lane = [] -> dim0 = 4}")
    #linear{register = [[1],[2]], lane = [] -> dim0 = 4}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from tile.ir.layout_kinds import declare_layout
from tile.ir.value_parser import TokenReader
from tile.simt.layouts import f2
from tile.simt.layouts.dims import (
    Dims,
    LayoutError,
    bit_moves,
    bit_positions,
    bits_of,
    check_names,
    check_permutation,
    log2_of,
    move_bits,
    named,
    pack,
    sizes,
    subtract_dims,
    unpack,
)

T = TypeVar("T")
IntArray = npt.NDArray[np.int64]

# Dimensions in order, each with the images of its bits, lowest bit first.
Inputs = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class LinearLayout:
    """A map from the bits of indices to the bits of coordinates, linear over F2; see the module.

    `ins` has for each input dimension the images of its bits, lowest bit first; `outs` has for each
    output dimension its number of bits. An image is one int in which all outputs are packed.
    `of` takes coordinates instead. Layouts are equal if names, their order and all bases are.
    """

    ins: Inputs
    outs: Dims

    def __post_init__(self) -> None:
        check_names(self.in_dims)
        check_names(self.out_dims)
        total = bits_of(self.outs)
        for name, columns in self.ins:
            for bit, column in enumerate(columns):
                if column < 0 or column >> total:
                    raise LayoutError(f"{name} basis {bit} is {column}, more than {total} bits")

    @classmethod
    def of(
        cls, bases: Mapping[str, Sequence[Sequence[int]]], outs: Mapping[str, int] | Sequence[int]
    ) -> LinearLayout:
        """Create a layout from coordinates: each input bit's step along each output dimension.

        `outs` has the size of each output dimension, a power of two; a plain sequence is the shape
        of a tile, of dimensions dim0, dim1, and so on. Raises `LayoutError`, naming the basis.
        """
        dims = named(outs)
        ins = []
        for name, steps in bases.items():
            images = [pack(step, dims, f"{name} basis {bit}") for bit, step in enumerate(steps)]
            ins.append((name, tuple(images)))
        return cls(tuple(ins), dims)

    # Components.

    @property
    def in_dims(self) -> tuple[str, ...]:
        return tuple([name for name, _ in self.ins])

    @property
    def out_dims(self) -> tuple[str, ...]:
        return tuple([name for name, _ in self.outs])

    @property
    def indices(self) -> Dims:
        """The input dimensions and how many bits each has."""
        return tuple([(name, len(columns)) for name, columns in self.ins])

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the output dimensions."""
        return tuple([1 << bits for _, bits in self.outs])

    def images(self, name: str) -> tuple[int, ...]:
        """Return the images of the bits of one input, each packed into an int."""
        for own, columns in self.ins:
            if own == name:
                return columns
        raise LayoutError(f"the layout has inputs {list(self.in_dims)} and not {name}")

    def bases(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Return the images of the bits of one input, as coordinates."""
        return tuple([tuple(unpack(column, self.outs)) for column in self.images(name)])

    def in_bits(self, name: str) -> int:
        return len(self.images(name))

    def in_size(self, name: str) -> int:
        return 1 << self.in_bits(name)

    def out_bits(self, name: str) -> int:
        for own, bits in self.outs:
            if own == name:
                return bits
        raise LayoutError(f"the layout has outputs {list(self.out_dims)} and not {name}")

    def out_size(self, name: str) -> int:
        return 1 << self.out_bits(name)

    @property
    def columns(self) -> tuple[int, ...]:
        """The matrix: the images of the packed bits of all inputs, lowest first."""
        return tuple([column for _, columns in reversed(self.ins) for column in columns])

    def __str__(self) -> str:
        return _text(self)

    __repr__ = __str__

    def _bits(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield each input's bits: input, bit, unit vector among packed inputs, and image."""
        at = bit_positions(self.indices)
        for name, columns in self.ins:
            for bit, column in enumerate(columns):
                yield name, bit, 1 << at[name] + bit, column

    # Evaluation.

    @overload
    def apply(self, **index: int) -> dict[str, int]: ...
    @overload
    def apply(self, **index: IntArray) -> dict[str, IntArray]: ...
    def apply(self, **index: Any) -> dict[str, Any]:
        """The coordinates at an index: ints for ints; for arrays, arrays of their common shape.

        An input that is not given is 0. Raises `LayoutError` for an index outside its dimension.
        """
        packed: Any = 0
        for name, number in index.items():
            value = number if isinstance(number, int) else np.asarray(number, np.int64)
            if np.any(value >> self.in_bits(name)):
                raise LayoutError(f"{name} is 0 to {self.in_size(name) - 1}, which {number} is not")
            packed = packed ^ (value & 0)
            for bit, column in enumerate(self.images(name)):
                packed = packed ^ (value >> bit & 1) * column
        return dict(zip(self.out_dims, unpack(packed, self.outs), strict=True))

    def table(self) -> dict[str, IntArray]:
        """Return the coordinates at every index: arrays with an axis for each input dimension."""
        packed = np.zeros(1, np.int64)
        for column in self.columns:
            packed = np.concatenate([packed, packed ^ column])
        packed = packed.reshape([1 << bits for _, bits in self.indices])
        return dict(zip(self.out_dims, unpack(packed, self.outs), strict=True))

    # Chains.

    def compose(self, inner: LinearLayout) -> LinearLayout:
        """Apply `inner` first, then this layout; also written `self @ inner`.

        The outputs of `inner` are the inputs of this one, by name and at most as large.
        """
        outs, ins = sizes(inner.outs), sizes(self.indices)
        if outs.keys() != ins.keys() or any(outs[name] > ins[name] for name in outs):
            raise LayoutError(f"outputs {outs} are not indices into inputs {ins}")
        columns: list[int] = []
        for name, bits in reversed(inner.outs):
            columns += self.images(name)[:bits]
        return LinearLayout(inner._map(lambda image: f2.multiply(columns, image)), self.outs)

    __matmul__ = compose

    def invert(self) -> LinearLayout:
        """Return the inverse. Raises `LayoutError` unless the layout is bijective."""
        if not self.is_injective():
            raise LayoutError(f"{self} has no inverse: it holds elements more than once")
        if not self.is_surjective():
            raise LayoutError(f"{self} has no inverse: it does not hold all elements")
        return self.pseudo_invert()

    def pseudo_invert(self) -> LinearLayout:
        """Return a layout from coordinates to indices that is an inverse where one exists.

        Call it `x`: `self @ x @ self == self` and `x @ self @ x == x`. Of the indices of an element
        it gives the one whose free variables are 0, and for an element that no index holds, that of
        another. Where each basis moves along one dimension, no index has fewer bits set.
        """
        inverse = f2.Elimination()
        for _, _, unit, column in self._bits():
            inverse.define(column, unit)
        for unit in f2.units(bits_of(self.outs)):
            inverse.define(unit)
        at = bit_positions(self.outs)
        ins = [
            (name, tuple([inverse.reduce(1 << at[name] + bit)[1] for bit in range(bits)]))
            for name, bits in self.outs
        ]
        return LinearLayout(tuple(ins), self.indices)

    def invert_and_compose(self, other: LinearLayout) -> LinearLayout:
        """Return `x` with `self @ x == other`: the indices here of the elements of `other`.

        Where that leaves a choice, an index stays as it is: an input bit of `other` that is free
        here, by the same name, maps to itself, and other free bits to 0. So the map from a layout
        to itself is the identity, duplicates too. Raises `LayoutError` for an element of `other`
        that is not held here.
        """
        inverse = f2.Elimination()
        stays: dict[tuple[str, int], int] = {}
        for name, bit, unit, column in self._bits():
            same = inverse.define(column, unit)
            if same is not None:
                stays[name, bit] = same
        matched = other.transpose_outs(*self.out_dims)
        if matched.outs != self.outs:
            raise LayoutError(f"outputs {sizes(other.outs)} are not {sizes(self.outs)}")

        def index(name: str, bit: int, column: int) -> int:
            image = inverse.image(column)
            if image is None:
                raise LayoutError(f"{name} basis {bit} of {other} is in no index of {self}")
            return image ^ stays.get((name, bit), 0)

        ins = [
            (name, tuple([index(name, bit, column) for bit, column in enumerate(columns)]))
            for name, columns in matched.ins
        ]
        return LinearLayout(tuple(ins), self.indices)

    # Ranks.

    def rank(self) -> int:
        """Return the rank of the matrix: the number of different elements is 2 to that power."""
        return f2.rank(self.columns)

    def is_surjective(self) -> bool:
        """Return True if every element is held."""
        return self.rank() == bits_of(self.outs)

    def is_injective(self) -> bool:
        """Return True if no element is held twice."""
        return self.rank() == len(self.columns)

    def is_bijective(self) -> bool:
        return self.is_surjective() and self.is_injective()

    def free_variables(self) -> dict[str, int]:
        """Return, for each input, a mask of the bits that can stay 0 without missing any element.

        They are those whose basis is a sum of earlier ones, in the order of the inputs.
        """
        span = f2.Elimination()
        free = dict.fromkeys(self.in_dims, 0)
        for name, bit, _, column in self._bits():
            free[name] |= (span.define(column) is not None) << bit
        return free

    # Products.

    def product(self, outer: LinearLayout) -> LinearLayout:
        """Put a copy of this layout at every place of `outer`; also `self * outer`.

        A dimension of both grows: this layout has its lower bits, and `outer` the upper.
        """
        own, added = dict(self.outs), dict(outer.outs)
        outs = tuple([(name, own.get(name, 0) + added.get(name, 0)) for name in own | added])
        upper = dict(outer._placed(outs, own))
        ins = [(name, images + upper.pop(name, ())) for name, images in self._placed(outs)]
        return LinearLayout((*ins, *upper.items()), outs)

    __mul__ = product

    def divide_left(self, inner: LinearLayout) -> LinearLayout | None:
        """Return the `outer` whose `inner * outer` is this layout, up to order; None if none is.

        It has all dimensions of this layout, of size 1 where `inner` leaves nothing.
        """
        ins, outs = subtract_dims(self.indices, inner.indices), subtract_dims(self.outs, inner.outs)
        if ins is None or outs is None:
            return None
        upper = [(n, c[len(c) - bits :]) for (n, c), (_, bits) in zip(self.ins, ins, strict=True)]
        down = {name: -bits for name, bits in inner.outs}
        outer = LinearLayout(LinearLayout(tuple(upper), self.outs)._placed(outs, down), outs)
        return outer if (inner * outer)._is(self) else None

    def quotient(self, *names: str) -> LinearLayout | None:
        """Return the map of the other dimensions, if this is the identity on those named.

        It is the identity on a dimension that is an input and an output of one size if each of its
        bits maps to itself and no other input reaches it.
        """
        if not {*names} <= {*self.in_dims} & {*self.out_dims}:
            return None
        rest = self.select_ins(*[name for name in self.in_dims if name not in names])
        rest = rest.select_outs(*[name for name in self.out_dims if name not in names])
        whole = rest
        for name in names:
            whole = whole * identity1d(self.in_size(name), name, name)
        return rest if whole._is(self) else None

    def is_identity_on(self, *names: str) -> bool:
        """Return True if the map is the identity on the named dimensions; see `quotient`."""
        return self.quotient(*names) is not None

    # The same map over other dimensions.

    def select_ins(self, *names: str) -> LinearLayout:
        """Return this layout with only these inputs, in this order, and the others at 0."""
        return LinearLayout(tuple([(name, self.images(name)) for name in names]), self.outs)

    def select_outs(self, *names: str) -> LinearLayout:
        """Return this layout with only these outputs, in this order, as after a reduction."""
        outs = tuple([(name, self.out_bits(name)) for name in names])
        return self if outs == self.outs else LinearLayout(self._placed(outs), outs)

    def transpose_ins(self, *names: str) -> LinearLayout:
        """Return this layout with the inputs in another order."""
        check_permutation(names, self.in_dims)
        return self.select_ins(*names)

    def transpose_outs(self, *names: str) -> LinearLayout:
        """Return this layout with the outputs in another order."""
        check_permutation(names, self.out_dims)
        return self.select_outs(*names)

    def reshape_outs(self, shape: Mapping[str, int] | Sequence[int]) -> LinearLayout:
        """Reshape the outputs, as NumPy reshapes an array of these dimensions."""
        outs = named(shape)
        if bits_of(outs) != bits_of(self.outs):
            raise LayoutError(f"{sizes(outs)} does not have as many elements as {sizes(self.outs)}")
        return LinearLayout(self.ins, outs)

    def wrap_outs(self, shape: Mapping[str, int] | Sequence[int]) -> LinearLayout:
        """Reduce the coordinates modulo these sizes; a larger size leaves them as they are."""
        outs = named(shape)
        check_permutation([name for name, _ in outs], self.out_dims)
        return LinearLayout(self._placed(outs), outs)

    def _is(self, other: LinearLayout) -> bool:
        """Return True if both are the same map up to the order of the dimensions."""
        if self.indices == other.indices and self.outs == other.outs:
            return self.ins == other.ins
        if {*self.indices} != {*other.indices} or {*self.outs} != {*other.outs}:
            return False
        return self.select_ins(*other.in_dims).select_outs(*other.out_dims) == other

    def _placed(self, outs: Dims, up: Mapping[str, int] | None = None) -> Inputs:
        """Return the inputs with their images packed as in `outs`.

        A dimension is shifted `up` by the bits given for its name, down for a negative number, and
        bits that do not fit are dropped.
        """
        how = bit_moves(self.outs, outs, up or {})
        return self._map(lambda image: move_bits(image, how))

    def _map(self, change: Callable[[int], int]) -> Inputs:
        return tuple([(name, tuple(map(change, columns))) for name, columns in self.ins])


@lru_cache(maxsize=4096)
def _text(layout: LinearLayout) -> str:
    """Return the layout as text: cached, since every check formats its message eagerly."""

    def steps(name: str) -> str:
        return ",".join(f"[{','.join(map(str, basis))}]" for basis in layout.bases(name))

    ins = ", ".join(f"{name} = [{steps(name)}]" for name in layout.in_dims)
    outs = ", ".join(f"{name} = {1 << bits}" for name, bits in layout.outs)
    return f"#linear{{{ins} -> {outs}}}"


def identity1d(size: int, in_dim: str, out_dim: str) -> LinearLayout:
    """Return the layout with index i at coordinate i."""
    columns = tuple(f2.units(log2_of(size, f"the size of {in_dim}")))
    return LinearLayout(((in_dim, columns),), ((out_dim, len(columns)),))


def zeros1d(size: int, in_dim: str, out_dim: str, out_size: int = 1) -> LinearLayout:
    """Return the layout with every index at coordinate 0: all hold copies of one element."""
    bits = log2_of(size, f"the size of {in_dim}")
    return LinearLayout(((in_dim, (0,) * bits),), ((out_dim, log2_of(out_size, out_dim)),))


KIND = "linear"


def parse_layout(text: str) -> LinearLayout:
    """Parse a layout. Raises `ParseError` for wrong text, `LayoutError` for impossible layouts."""
    named_kind = text.lstrip().startswith(f"#{KIND}")
    # `#` begins a token that is a whole layout.
    reader = TokenReader(text.replace("#", " ", 1) if named_kind else text, "<layout>")
    reader.expect(KIND if named_kind else f"#{KIND}", "{")

    def numbers() -> list[int]:
        reader.expect("[")
        return [reader.integer() for _ in reader.until("]")]

    def bases() -> list[list[int]]:
        reader.expect("[")
        return [numbers() for _ in reader.until("]")]

    ins = _entries(reader, bases, "->")
    outs = _entries(reader, reader.integer, "}")
    reader.expect_end()
    return LinearLayout.of(ins, outs)


def _entries(reader: TokenReader, value: Callable[[], T], close: str) -> dict[str, T]:
    """Parse `name = value`, separated by commas, and the token `close`."""
    entries: dict[str, T] = {}
    for _ in reader.until(close):
        name = reader.expect_kind("word", "the name of a dimension")
        if name.text in entries:
            reader.fail(f"a layout names {name.text} once", name)
        reader.expect("=")
        entries[name.text] = value()
    return entries


declare_layout(KIND, LinearLayout, parse_layout)
