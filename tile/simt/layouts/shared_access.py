"""Accesses to shared memory in vectors, and by ldmatrix and stmatrix.

Each thread of a block stores or loads its part of a tile in vectors:

    >>> from tile.simt.layouts.blocked import blocked
    >>> from tile.simt.layouts.swizzle import swizzled
    >>> rows = blocked([4, 16], [1, 4], [4, 1], [1, 4])
    >>> access = shared_access(rows, swizzled([4, 16], 4, 1, 4), element_bits=16)
    >>> access.vector, access.registers
    (4, ((0, 1, 2, 3),))
    >>> access.offsets.apply(lane=3, warp=1)
    {'offset': 56}

With ldmatrix and stmatrix a warp moves matrices of 8 rows of 16 bytes from or to shared memory. A
lane gives the address of a row and gets four bytes of each of several rows. So there are two
layouts: the *address* layout, whose registers walk a row and whose lanes walk the rows, and the
layout in which the tile arrives. For four matrices of 16-bit elements, with r, l the bits of the
registers and lanes in which the tile arrives:

                        register            lane                 a lane gets of a row
    addresses           r0 l0 l1 r3..       l2 l3 l4 r1 r2       two contiguous elements
    if transposed       l2 l3 l4 r3..       r0 l0 l1 r1 r2       one element of two rows

A tile arrives in its layout if the first register bits of the address layout are the low bits of
the offset:

    >>> from tile.simt.layouts.mma_fragments import MmaShape, Operand, matrix_fragment
    >>> right = matrix_fragment(MmaShape(16, 8, 16, 16), Operand.RIGHT)  # k, n
    >>> right = LinearLayout((*right.ins[:2], ("warp", ())), right.outs)
    >>> access = ldmatrix_access(right, swizzled([16, 8], 8, 1, 1, [0, 1]), 16)
    >>> access.matrices, access.transposed, access.rows.apply(lane=1), access.rows.apply(lane=8)
    (2, False, {'offset': 16}, {'offset': 8})
    >>> access = ldmatrix_access(right, swizzled([16, 8], 8, 1, 1), 16)
    >>> access.matrices, access.transposed, access.rows.apply(lane=1), access.rows.apply(lane=8)
    (2, True, {'offset': 8}, {'offset': 64})

A store is the inverse: the elements that lanes hold in the layout go to the rows.

Consecutive words lie in consecutive banks, and one *wavefront* reads or writes one word of every
bank, for any number of lanes. As many lanes are served together as can fill a wavefront: of 32
banks of 4 bytes, that is 32 lanes with up to 4 bytes each, 16 with 8 or 8 with 16. Two different
words of a bank need two wavefronts: a bank conflict. Hardware may do better on loads, where it
finds lanes that fit together across these groups; never worse.

    >>> rows = np.arange(32)                              # each lane a word of one row
    >>> wavefronts(np.stack([rows, rows * 32]), element_bits=32, vector=1)
    array([ 1, 32])
    >>> wavefronts(rows[None] * 4, element_bits=32, vector=4)     # 512 bytes
    array([4])
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tile.simt.layouts import f2
from tile.simt.layouts.dims import LANE, OFFSET, REGISTER, WARP, log2_of, require
from tile.simt.layouts.linear_layout import IntArray, LinearLayout, identity1d


@dataclass(frozen=True)
class Banks:
    """The banks of shared memory, and the widest access of one lane.

    `simd_width`: the SIMD width of targets whose lanes are SIMD lanes and which have no banks; see
    `simd_layout`.
    """

    count: int = 32
    word_bits: int = 32
    vector_bits: int = 128
    simd_width: int = 1

    @property
    def line_bits(self) -> int:
        """The bits that one wavefront can move."""
        return self.count * self.word_bits

    def up_to(self, access_bits: int) -> Banks:
        """Return the banks with accesses of one lane limited to `access_bits`."""
        return replace(self, vector_bits=min(self.vector_bits, access_bits))

    def lanes_together(self, access_bits: int) -> int:
        """Return the number of lanes that share a wavefront; 1 if a lane needs several."""
        return max(1, self.line_bits // max(access_bits, self.word_bits))


BANKS = Banks()


def wavefronts(offsets: IntArray, element_bits: int, vector: int, banks: Banks = BANKS) -> IntArray:
    """Return the number of wavefronts of each instruction, counted bank by bank.

    `offsets` has the lanes along its last axis: the start of each lane's vector of `vector`
    elements, counted in elements. The result has an entry for each instruction, of the axes before.
    """
    bits = element_bits * vector
    starts = np.asarray(offsets, np.int64) * element_bits
    require(
        not np.any(starts % bits), f"a vector of {vector} elements begins at a multiple of {vector}"
    )
    words = np.arange(max(1, bits // banks.word_bits)) + starts[..., None] // banks.word_bits
    together = min(starts.shape[-1], banks.lanes_together(bits))
    words = np.sort(words.reshape(*starts.shape[:-1], -1, together * words.shape[-1]))
    new = np.ones(words.shape, bool)
    new[..., 1:] = words[..., 1:] != words[..., :-1]
    in_bank = words % banks.count
    most = np.zeros(words.shape[:-1], np.int64)
    for bank in range(banks.count):
        most = np.maximum(most, np.sum(new & (in_bank == bank), axis=-1))
    total: IntArray = most.sum(axis=-1)
    return total


@dataclass(frozen=True)
class SharedAccess:
    """The instructions that move a tile between registers and shared memory.

    Each moves a vector of `vector` elements: `registers` has for each instruction the registers in
    the order of their offsets in memory, the first of which is at `offsets`. A register in none of
    them holds a copy of another on the same thread: `copies` has such pairs.
    """

    vector: int
    offsets: LinearLayout
    registers: tuple[tuple[int, ...], ...]
    copies: tuple[tuple[int, int], ...]

    def wavefronts(self, element_bits: int, banks: Banks = BANKS) -> IntArray:
        """Return the wavefronts of each instruction, an array of shape (instructions, warps)."""
        first = np.array([registers[0] for registers in self.registers])
        lanes, warps = (np.arange(self.offsets.in_size(name)) for name in (LANE, WARP))
        index = {REGISTER: first[:, None, None], WARP: warps[:, None], LANE: lanes}
        return wavefronts(self.offsets.apply(**index)[OFFSET], element_bits, self.vector, banks)

    def conflicts(self, element_bits: int, banks: Banks = BANKS) -> int:
        """Return the number of wavefronts beyond the least that the number of lanes requires."""
        _, each = self.wavefronts_each(element_bits, banks)
        return each * len(self.registers) * self.offsets.in_size(WARP)

    def wavefronts_each(self, element_bits: int, banks: Banks = BANKS) -> tuple[int, int]:
        """Return the wavefronts of one instruction of a warp, and those due to conflicts.

        Offsets are linear, so all instructions take as many. The words that lanes access together
        are a space, of which those in one bank are a coset of the kernel of the bank number.
        """
        word = log2_of(max(1, banks.word_bits // element_bits), "the elements of a word")
        wide = log2_of(max(1, element_bits // banks.word_bits), "the words of an element")
        vector = log2_of(self.vector, "the elements of a vector")
        lanes = self.offsets.images(LANE)
        together = log2_of(banks.lanes_together(element_bits * self.vector), "lanes")
        words = [lane << wide >> word for lane in lanes[:together]]
        words += [1 << bit for bit in range(max(0, vector + wide - word))]
        in_bank = f2.rank(words) - f2.rank([x & banks.count - 1 for x in words])
        groups = 1 << max(0, len(lanes) - together)
        return groups << in_bank, (groups << in_bank) - groups


def shared_access(
    layout: LinearLayout, shared: LinearLayout, element_bits: int, banks: Banks = BANKS
) -> SharedAccess:
    """Return the fewest instructions that move a tile of a layout to or from shared memory.

    `layout` is of (register, lane, warp) and `shared` of offset, a bijection. A vector's registers
    are the preimage of the low bits of the offset among registers alone, while lanes and warps
    begin at multiples of the vector. Raises `LayoutError` if the shapes differ.
    """
    offsets = shared.invert_and_compose(layout)
    widest = log2_of(max(1, banks.vector_bits // element_bits), "the elements of a vector")
    threads = [column for name, columns in offsets.ins if name != REGISTER for column in columns]
    span = f2.Elimination()
    for column in offsets.images(REGISTER):
        span.define(column)
    bits = 0
    while (
        bits < widest
        and span.image(1 << bits) is not None
        and not any(column >> bits & 1 for column in threads)
    ):
        bits += 1
    registers, copies = distinct_registers(layout)
    positions = offsets.select_ins(REGISTER).table()[OFFSET]
    vectors: dict[int, list[int]] = {}
    for register in registers:
        vectors.setdefault(int(positions[register]) >> bits, []).append(register)
    in_order = [tuple(sorted(vector, key=lambda r: positions[r])) for vector in vectors.values()]
    return SharedAccess(1 << bits, offsets, tuple(in_order), tuple(copies))


def distinct_registers(layout: LinearLayout) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the registers with different elements, and pairs (copy, original) of the others."""
    own = layout.select_ins(REGISTER)
    free = own.free_variables()[REGISTER]
    registers = [r for r in range(own.in_size(REGISTER)) if not r & free]
    same = own.pseudo_invert() @ own
    copied = same.table()[REGISTER]
    copies = [(r, int(copied[r])) for r in range(own.in_size(REGISTER)) if r & free]
    return registers, copies


_PART_BITS = 32  # bits of a row that one lane gets
_LANE_BITS = 5
_ROW_BITS = 3  # the number of a row in its matrix
_MATRIX_BITS = 2  # up to four at once


@dataclass(frozen=True)
class LdmatrixAccess:
    """An access to a tile by ldmatrix or stmatrix, `matrices` matrices each.

    `rows` maps (register, lane, warp) to the offsets of the rows; its registers number the
    instructions, whose results are in the order of the tile's own registers.
    """

    matrices: int
    transposed: bool
    rows: LinearLayout


@dataclass(frozen=True)
class AddressLayout:
    """An address layout for rows: the first `row` bits of its registers walk a row."""

    layout: LinearLayout
    row: int
    matrices: int
    transposed: bool

    @property
    def row_images(self) -> tuple[int, ...]:
        """The images of a row's bits."""
        return self.layout.images(REGISTER)[: self.row]


def address_layouts(layout: LinearLayout, element_bits: int) -> Iterator[AddressLayout]:
    """Yield the address layouts for tiles that arrive in this (register, lane, warp) layout."""
    part = log2_of(max(1, _PART_BITS // element_bits), "the elements of a lane's part")
    registers, lanes, warps = (layout.images(name) for name in (REGISTER, LANE, WARP))
    if element_bits > _PART_BITS or len(lanes) != _LANE_BITS or len(registers) < part:
        return
    own, rest = registers[:part], registers[part:]
    together, later = rest[:_MATRIX_BITS], rest[_MATRIX_BITS:]
    copies = (0,) * (_MATRIX_BITS - len(together))
    for transposed in (False, True)[: 1 + (part == 1)]:
        row, down = (*own, *lanes[:2]), lanes[2:]
        if transposed:
            row, down = lanes[2:], (*own, *lanes[:2])
        if all(row):
            ins = (
                (REGISTER, (*row, *later)),
                (LANE, (*down, *together, *copies)),
                (WARP, warps),
            )
            yield AddressLayout(
                LinearLayout(ins, layout.outs), len(row), 1 << len(together), transposed
            )


@lru_cache(maxsize=1024)
def ldmatrix_access(
    layout: LinearLayout, shared: LinearLayout, element_bits: int
) -> LdmatrixAccess | None:
    """Return the ldmatrix access that loads a tile in this layout; None without contiguous rows."""
    for asked in address_layouts(layout, element_bits):
        offsets = shared.invert_and_compose(asked.layout)
        if offsets.divide_left(identity1d(1 << asked.row, REGISTER, OFFSET)) is not None:
            (_, registers), *threads = offsets.ins
            rows = LinearLayout(((REGISTER, registers[asked.row :]), *threads), offsets.outs)
            return LdmatrixAccess(asked.matrices, asked.transposed, rows)
    return None


@lru_cache(maxsize=1024)
def stmatrix_access(
    layout: LinearLayout, shared: LinearLayout, element_bits: int, banks: Banks = BANKS
) -> LdmatrixAccess | None:
    """Return the stmatrix access that stores a tile in this layout; None where vectors do as well.

    Vectors do as well where they take no more instructions, where several threads hold the same
    element, of which only one is to store it, or where the rows of a matrix conflict in the banks.
    """
    if not all(layout.images(LANE)) or not all(layout.images(WARP)):
        return None
    access = ldmatrix_access(layout, shared, element_bits)
    if access is None:
        return None
    vectors = len(shared_access(layout, shared, element_bits, banks).registers)
    if access.rows.in_size(REGISTER) >= vectors or _rows_meet(access.rows, element_bits, banks):
        return None
    return access


def _rows_meet(rows: LinearLayout, element_bits: int, banks: Banks) -> bool:
    """Return True if some of the eight rows of a matrix are in the same banks."""
    line = (1 << log2_of(banks.line_bits // element_bits, "the elements of a line")) - 1
    down = rows.images(LANE)[:_ROW_BITS]
    return f2.rank([offset & line for offset in down]) < _ROW_BITS
