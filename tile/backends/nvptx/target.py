"""NVIDIA's architectures: what each can do, as the lowering and the emitter ask for it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from tile.backends.nvptx.names import parse
from tile.errors import BackendError
from tile.ir.ops.reduce import ReduceKind
from tile.ir.types import BF16, F16, F32, F64, FP8, I8, I32, U8, U32, Scalar
from tile.simt.layouts.fragments import MatrixShape, group_shapes
from tile.simt.target import GROUP_DIGITS, GROUP_ELEMENTS, REDUCTIONS, SimtTarget

WARP = 32
MAX_THREADS = 1024
REGISTERS = 255

# Shared memory that a program can have, in KiB, by compute capability.
_SHARED_KIB = {
    70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 88: 163, 89: 99, 90: 227, 100: 227,
    101: 227, 103: 227, 110: 227, 120: 99, 121: 99,
}  # fmt: skip

# The first version of PTX that knows an architecture, where that is after `_PTX`.
_PTX_SINCE = {88: 90, 100: 86, 101: 86, 103: 88, 110: 90, 120: 87, 121: 88}
_PTX = 84

# Matrix instructions, by the capability from which they are there, and the elements that they take.
# Those of 8-bit floats are not everywhere; two of f16 do the same (see `emit/matrix.py`).
_MATRIX: tuple[tuple[int, MatrixShape, tuple[Scalar, ...]], ...] = (
    (75, MatrixShape(16, 8, 8, 16), (F16,)),
    (75, MatrixShape(8, 8, 16, 8), (I8, U8)),
    (80, MatrixShape(16, 8, 8, 16), (F16, BF16)),
    (80, MatrixShape(16, 8, 16, 16), (F16, BF16)),
    (80, MatrixShape(16, 8, 4, 32), (F32,)),
    (80, MatrixShape(16, 8, 8, 32), (F32,)),
    (80, MatrixShape(16, 8, 16, 8), (I8, U8)),
    (80, MatrixShape(16, 8, 32, 8), (I8, U8, *FP8)),
    (80, MatrixShape(8, 8, 4, 64), (F64,)),
    (90, MatrixShape(16, 8, 16, 64), (F64,)),
)

# How many numbers in a row one `red` instruction adds to: before sm_90, and from then on.
_ADDED = (((F16, 2),), ((F16, 8), (BF16, 8), (F32, 4)))


@dataclass(frozen=True)
class Architecture:
    """One of NVIDIA's architectures.

    `name` is as the assembler has it, `capability` its number: 90 for `sm_90a`.
    """

    name: str
    capability: int

    @property
    def features(self) -> str:
        """What the code generator is told besides the name: the version of PTX."""
        return f"+ptx{_PTX_SINCE.get(self.capability, _PTX)}"

    @property
    def copies(self) -> bool:
        """Whether threads can copy to shared memory asynchronously."""
        return self.capability >= 80

    @property
    def fp8(self) -> bool:
        """Whether there are instructions that convert and multiply 8-bit floats."""
        return self.capability >= 89

    @property
    def multiplies_fp8(self) -> bool:
        """Whether a warp multiplies 8-bit floats by an instruction of the machine.

        In between, the assembler makes of it two of f16 that do not add up, conversions and sums.
        """
        return self.capability == 89 or self.capability >= 120

    @property
    def simt(self) -> SimtTarget:
        """The machine as the lowering sees it."""
        return _simt(self)


@functools.cache
def architecture(name: str) -> Architecture:
    """The architecture of that name. Raises `BackendError` for one that is not known."""
    capability, letter = parse(name)
    if capability not in _SHARED_KIB:
        known = ", ".join(f"sm_{number}" for number in _SHARED_KIB)
        raise BackendError(
            f"the nvptx backend has no architecture {name!r}; there are {known}, "
            "and from sm_90 on those with an `a`, as in sm_90a"
        )
    if letter and capability < 90:
        raise BackendError(f"architecture {name!r} does not exist; it is sm_{capability}")
    return Architecture(name, capability)


def _lane_reductions(arch: Architecture) -> Iterator[tuple[Scalar, tuple[ReduceKind, ...]]]:
    """What `redux` does: with integers from sm_80 on, with floats on one architecture alone."""
    if arch.capability >= 80:
        yield from ((element, REDUCTIONS) for element in (I32, U32))
    if arch.name == "sm_100a":
        yield F32, (ReduceKind.MAX, ReduceKind.MIN)


@functools.cache
def _simt(arch: Architecture) -> SimtTarget:
    groups = arch.name == "sm_90a"  # neither sm_90 nor what came after sm_90a has them
    shapes = {shape: elements for since, shape, elements in _MATRIX if arch.capability >= since}
    return SimtTarget(
        name=arch.name,
        warp_size=WARP,
        shared_bytes=_SHARED_KIB[arch.capability] << 10,
        registers=REGISTERS,
        max_threads=MAX_THREADS,
        shuffles=True,
        copy_bytes=(4, 8, 16) if arch.copies else (),
        matrix_shapes=tuple(shapes),
        matrix_elements=tuple(shapes.items()),
        group_shapes=tuple(group_shapes(8, 16, 32)) if groups else (),
        group_elements=GROUP_ELEMENTS if groups else (),
        group_digits=GROUP_DIGITS if groups else (),
        bulk_copies=arch.capability >= 90,
        matrix_loads=arch.capability >= 75,
        matrix_stores=arch.capability >= 90,
        lane_reductions=tuple(_lane_reductions(arch)),
        added_together=_ADDED[arch.capability >= 90],
        narrow_arithmetic=(F16, BF16) if arch.capability >= 90 else (F16,),
        narrow_comparison=(F16, BF16) if arch.capability >= 90 else (F16,),
    )
