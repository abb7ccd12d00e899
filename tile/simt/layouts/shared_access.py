"""Vectorized accesses to shared memory: stores and loads of a tile by the threads of a block.

>>> from tile.simt.layouts.blocked import blocked
>>> from tile.simt.layouts.swizzle import swizzled
>>> rows = blocked([4, 16], [1, 4], [4, 1], [1, 4])
>>> access = shared_access(rows, swizzled([4, 16], 4, 1, 4), element_bits=16)
>>> access.vector, access.registers
(4, ((0, 1, 2, 3),))
>>> access.offsets.apply(lane=3, warp=1)
{'offset': 56}
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tile.simt.layouts import f2
from tile.simt.layouts.banks import BANKS, Banks, wavefronts
from tile.simt.layouts.dims import LANE, OFFSET, REGISTER, WARP, log2_of
from tile.simt.layouts.layout import IntArray, LinearLayout


@dataclass(frozen=True)
class Access:
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
        together = banks.lanes_together(element_bits * self.vector)
        least = max(1, self.offsets.in_size(LANE) // together)
        return int(np.sum(self.wavefronts(element_bits, banks) - least))

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
) -> Access:
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
    return Access(1 << bits, offsets, tuple(in_order), tuple(copies))


def distinct_registers(layout: LinearLayout) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the registers with different elements, and pairs (copy, original) of the others."""
    own = layout.select_ins(REGISTER)
    free = own.free_variables()[REGISTER]
    registers = [r for r in range(own.in_size(REGISTER)) if not r & free]
    same = own.pseudo_invert() @ own
    copied = same.table()[REGISTER]
    copies = [(r, int(copied[r])) for r in range(own.in_size(REGISTER)) if r & free]
    return registers, copies
