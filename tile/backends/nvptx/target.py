"""Capabilities of NVIDIA's architectures, as the lowering and the emitter query them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from tile.backends.nvptx.architectures import parse
from tile.errors import BackendError
from tile.ir.ops.reduce import ReduceKind
from tile.ir.types import BF16, F16, F32, F64, FP8, I8, I32, U8, U32, Scalar
from tile.simt.layouts.mma_fragments import MmaShape, wgmma_shapes
from tile.simt.target import REDUCTIONS, WGMMA_ACCUMULATOR_BITS, WGMMA_TYPES, SimtTarget

WARP = 32
MAX_THREADS = 1024
REGISTERS = 255

# Shared memory of a program, in KiB, by compute capability.
_SHARED_KIB = {
    70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 88: 163, 89: 99, 90: 227, 100: 227,
    101: 227, 103: 227, 110: 227, 120: 99, 121: 99,
}  # fmt: skip

# The first PTX version with an architecture, where that is later than `_PTX`.
_PTX_SINCE = {88: 90, 100: 86, 101: 86, 103: 88, 110: 90, 120: 87, 121: 88}
_PTX = 84

# mma shapes: the first capability that has them, and their element types. Some architectures lack
# those of 8-bit floats; two f16 instructions replace one there (see `_fp8_as_f16` in `emit`).
_MMA_SHAPES: tuple[tuple[int, MmaShape, tuple[Scalar, ...]], ...] = (
    (75, MmaShape(16, 8, 8, 16), (F16,)),
    (75, MmaShape(8, 8, 16, 8), (I8, U8)),
    (80, MmaShape(16, 8, 8, 16), (F16, BF16)),
    (80, MmaShape(16, 8, 16, 16), (F16, BF16)),
    (80, MmaShape(16, 8, 4, 32), (F32,)),
    (80, MmaShape(16, 8, 8, 32), (F32,)),
    (80, MmaShape(16, 8, 16, 8), (I8, U8)),
    (80, MmaShape(16, 8, 32, 8), (I8, U8, *FP8)),
    (80, MmaShape(8, 8, 4, 64), (F64,)),
    (90, MmaShape(16, 8, 4, 64), (F64,)),
    (90, MmaShape(16, 8, 8, 64), (F64,)),
    (90, MmaShape(16, 8, 16, 64), (F64,)),
)

# Contiguous elements that one `red` instruction adds: before sm_90, and from sm_90 on.
_VECTOR_ATOMICS = (((F16, 2),), ((F16, 8), (BF16, 8), (F32, 4)))


@dataclass(frozen=True)
class Architecture:
    """One of NVIDIA's architectures.

    `name` is ptxas's name, `capability` its number: 90 for `sm_90a`.
    """

    name: str
    capability: int

    @property
    def features(self) -> str:
        """The features for LLVM's code generator: the PTX version."""
        return f"+ptx{_PTX_SINCE.get(self.capability, _PTX)}"

    @property
    def has_cp_async(self) -> bool:
        """True if threads can copy to shared memory asynchronously."""
        return self.capability >= 80

    @property
    def fp8(self) -> bool:
        """True if there are instructions that convert and multiply 8-bit floats."""
        return self.capability >= 89

    @property
    def has_fp8_mma(self) -> bool:
        """True if the hardware has mma of 8-bit floats.

        From sm_90 to before sm_120, ptxas expands it into conversions, two f16 mma that do not
        accumulate, and additions.
        """
        return self.capability == 89 or self.capability >= 120

    @property
    def native_floats(self) -> tuple[Scalar, ...]:
        """The floats below 32 bits that instructions add, multiply and compare."""
        return (F16, BF16) if self.capability >= 90 else (F16,)

    @property
    def packed_extremes(self) -> tuple[Scalar, ...]:
        """The floats of 16 bits that instructions compare in pairs."""
        return self.native_floats if self.capability >= 80 else ()

    @property
    def simt(self) -> SimtTarget:
        """The target as the lowering sees it."""
        return _simt(self)


@functools.cache
def architecture(name: str) -> Architecture:
    """Return an architecture by name. Raises `BackendError` for an unknown one."""
    capability, letter = parse(name)
    if capability not in _SHARED_KIB:
        names = ", ".join(f"sm_{number}" for number in _SHARED_KIB)
        raise BackendError(
            f"the nvptx backend has no architecture {name!r}; there are {names}, "
            "and from sm_90 on those with an `a`, as in sm_90a"
        )
    if letter and capability < 90:
        raise BackendError(f"architecture {name!r} does not exist; it is sm_{capability}")
    return Architecture(name, capability)


def _warp_reductions(arch: Architecture) -> Iterator[tuple[Scalar, tuple[ReduceKind, ...]]]:
    """Yield the kinds and types of `redux`: integers from sm_80 on, floats on one architecture."""
    if arch.capability >= 80:
        yield from ((element, REDUCTIONS) for element in (I32, U32))
    if arch.name == "sm_100a":
        yield F32, (ReduceKind.MAX, ReduceKind.MIN)


@functools.cache
def _simt(arch: Architecture) -> SimtTarget:
    has_wgmma = arch.name == "sm_90a"  # neither sm_90 nor any later architecture has it
    shapes = {shape: elements for since, shape, elements in _MMA_SHAPES if arch.capability >= since}
    return SimtTarget(
        name=arch.name,
        warp_size=WARP,
        shared_bytes=_SHARED_KIB[arch.capability] << 10,
        registers=REGISTERS,
        max_threads=MAX_THREADS,
        shuffles=True,
        cp_async_bytes=(4, 8, 16) if arch.has_cp_async else (),
        mma_shapes=tuple(shapes),
        mma_types=tuple(shapes.items()),
        wgmma_shapes=tuple(wgmma_shapes(8, 16, 32)) if has_wgmma else (),
        wgmma_types=WGMMA_TYPES if has_wgmma else (),
        wgmma_accumulator_bits=WGMMA_ACCUMULATOR_BITS if has_wgmma else (),
        has_tma=arch.capability >= 90,
        has_ldmatrix=arch.capability >= 75,
        has_stmatrix=arch.capability >= 90,
        warp_reductions=tuple(_warp_reductions(arch)),
        vector_atomics=_VECTOR_ATOMICS[arch.capability >= 90],
        invariant_loads=True,
        approximate_division=True,
        packed_extremes=arch.packed_extremes,
    )
