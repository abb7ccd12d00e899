"""Bank conflicts: the wavefronts that an access to shared memory takes.

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

from dataclasses import dataclass, replace

import numpy as np

from tile.simt.layouts.dims import require
from tile.simt.layouts.linear_layout import IntArray


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
