"""Target descriptions: the fields by which SIMT passes decide.

No pass compares a target's name. Each backend describes its targets so; the targets here are for
the SIMT simulator, which runs code for any of them.

    plain     warps of 32, and nothing else: no shuffles, async copies, or mma instructions
    generic   with shuffles
    cp_async  with shuffles, asynchronous copies to shared memory, and f16 arithmetic
    mma       with those, mma, ldmatrix and stmatrix, and more bf16 arithmetic
    wgmma     with those, wgmma (warpgroup mma from shared memory), and TMA
    warp64    with shuffles, and warps of 64 lanes

`atomic_vector_width` decides how many elements one vector atomic addition takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tile.errors import ArgumentValueError
from tile.ir.core import Operation
from tile.ir.extents import is_power_of_two
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, memory
from tile.ir.ops.memory import RMWKind
from tile.ir.ops.reduce import ReduceKind
from tile.ir.types import BF16, F16, F32, F64, FP8, I8, I32, NARROW_FLOATS, U8, U32, Scalar
from tile.simt.layouts.mma_fragments import FRAGMENTS, MmaShape, wgmma_shapes
from tile.simt.layouts.shared_access import BANKS, Banks
from tile.simt.tuning import TUNING, TuningConstants


@dataclass(frozen=True, eq=False)
class EmittedOps:
    """The ops that an emitter has rules for, as `legalize` asks.

    `rules` are the ops of its table, None for the SIMT simulator, which has all. `narrow` has the
    narrow floats that the rule of an op takes; any other rule takes all that its op accepts.
    `direct` are the floats to which its casts convert integers and f64 with one rounding.
    """

    rules: frozenset[OpDef] | None = None
    narrow: Mapping[OpDef, tuple[Scalar, ...]] = field(default_factory=dict)
    direct: tuple[Scalar, ...] = (F16, F32, F64)

    def has(self, defn: OpDef) -> bool:
        """Return True if there is a rule for an op."""
        return self.rules is None or defn in self.rules

    def computes_in_f32(self, op: Operation) -> bool:
        """Return True if the rule of an operation takes f32 but not its operands' element."""
        takes = self.narrow.get(op.defn, NARROW_FLOATS)
        if takes == NARROW_FLOATS:
            return False
        element = op.inputs[0].type.element
        return element in NARROW_FLOATS and element not in takes


def narrow_rules(
    arithmetic: tuple[Scalar, ...] = (), comparison: tuple[Scalar, ...] = ()
) -> dict[OpDef, tuple[Scalar, ...]]:
    """Return `EmittedOps.narrow` of a machine with such arithmetic and comparison; none divides."""
    return {
        **dict.fromkeys((arith.add, arith.sub, arith.mul, arith.fma), arithmetic),
        **dict.fromkeys((arith.cmp, arith.min_, arith.max_), comparison),
        **dict.fromkeys((arith.div, arith.div_rn, arith.rem), ()),
    }


@dataclass(frozen=True)
class SimtTarget:
    """A target. Sizes are in bytes unless their name says bits."""

    name: str
    warp_size: int  # lanes of a warp
    shared_bytes: int  # shared memory of a program
    registers: int  # of 32 bits, that a thread can have
    max_threads: int  # of a program
    register_file: int = 1 << 16  # registers of 32 bits that co-resident programs share
    vector_bits: int = 128  # the widest access of one lane to global memory
    shuffles: bool = False  # lanes of a warp can read each other's registers
    cp_async_bytes: tuple[
        int, ...
    ] = ()  # sizes of one lane's async copy to shared memory (cp.async)
    mma_shapes: tuple[MmaShape, ...] = ()  # mma instructions of a warp
    # Those shapes that take only some of the elements of their width.
    mma_types: tuple[tuple[MmaShape, tuple[Scalar, ...]], ...] = ()
    wgmma_shapes: tuple[MmaShape, ...] = ()  # wgmma instructions of a warpgroup
    # The elements that these multiply, each with its accumulator elements.
    wgmma_types: tuple[tuple[Scalar, tuple[Scalar, ...]], ...] = ()
    # Elements accumulated with less precision than f32: the bits after the leading one.
    wgmma_accumulator_bits: tuple[tuple[Scalar, int], ...] = ()
    has_tma: bool = False  # TMA: descriptor blocks move to and from shared memory as a whole
    has_ldmatrix: bool = False  # ldmatrix: a warp of 32 loads matrices with rows of 16 bytes
    has_stmatrix: bool = False  # stmatrix: a warp of 32 stores them
    ops: EmittedOps = EmittedOps(narrow=narrow_rules())
    # `div` of f32 is within 2 units in the last place, by an approximate reciprocal.
    approximate_division: bool = False
    # Floats of which one instruction compares two pairs and takes the greater or lesser of each.
    packed_extremes: tuple[Scalar, ...] = ()
    # Reductions over all lanes of a warp that take one instruction, by element.
    warp_reductions: tuple[tuple[Scalar, tuple[ReduceKind, ...]], ...] = ()
    # Contiguous elements that one vector atomic addition covers, by element.
    vector_atomics: tuple[tuple[Scalar, int], ...] = ()
    # Code for invariant loads is better where the load may run after a write.
    invariant_loads: bool = False
    simd_width: int = 1  # SIMD width: adjacent lanes that one vector instruction executes
    banks: Banks = field(default=BANKS)
    # Not hashed: targets that differ by it alone are rare, and caches hash targets often.
    tuning: TuningConstants = field(default=TUNING, hash=False)

    def __post_init__(self) -> None:
        for name in ("warp_size", "max_threads", "vector_bits", "simd_width"):
            value = getattr(self, name)
            if not is_power_of_two(value):
                raise ArgumentValueError(
                    f"{name} of target {self.name} is a power of two, not {value}"
                )
        for shape in (*self.mma_shapes, *self.wgmma_shapes):
            if shape not in FRAGMENTS:
                raise ArgumentValueError(f"target {self.name}: no mma instruction is {shape}")
        for name in ("has_ldmatrix", "has_stmatrix", "wgmma_shapes"):
            if getattr(self, name) and self.warp_size != 32:
                raise ArgumentValueError(
                    f"{name} of target {self.name} take warps of 32, not of {self.warp_size}"
                )

    @property
    def spare_shared_bytes(self) -> int:
        """The shared memory that may be spent to save barriers."""
        return self.shared_bytes // self.tuning.resident_programs

    def has_mma(self, shape: MmaShape, element: Scalar) -> bool:
        """Return True if there is an mma instruction of a shape for operands of an element."""
        fitting = shape in self.mma_shapes and shape.bits == element.bits
        return fitting and element in dict(self.mma_types).get(shape, (element,))

    def has_wgmma(self, element: Scalar, into: Scalar) -> bool:
        """Return True if wgmma multiplies elements and accumulates them in elements `into`."""
        return into in dict(self.wgmma_types).get(element, ())

    def has_warp_reduce(self, kind: ReduceKind, element: Scalar) -> bool:
        """Return True if one instruction reduces such elements over all lanes of a warp."""
        return kind in dict(self.warp_reductions).get(element, ())

    def vector_atomic_width(self, element: Scalar) -> int:
        """Return how many contiguous elements one atomic addition of a lane covers, at most."""
        return dict(self.vector_atomics).get(element, 1)

    @classmethod
    def parse(cls, text: str) -> SimtTarget:
        """Return the target of a name, as in textual pass pipelines."""
        if text not in TARGETS:
            raise ArgumentValueError(f"no target is named {text!r}; there are {', '.join(TARGETS)}")
        return TARGETS[text]

    def __str__(self) -> str:
        return self.name


# Reductions of integers on targets with warp reductions.
REDUCTIONS = (
    ReduceKind.SUM,
    ReduceKind.MAX,
    ReduceKind.MIN,
    ReduceKind.AND,
    ReduceKind.OR,
    ReduceKind.XOR,
)

# The elements of wgmma, and the bits of its accumulation of 8-bit floats after the leading one.
WGMMA_TYPES: tuple[tuple[Scalar, tuple[Scalar, ...]], ...] = (
    (F16, (F32, F16)),
    (BF16, (F32,)),
    (F32, (F32,)),
    (I8, (I32,)),
    (U8, (I32,)),
    *((element, (F32,)) for element in FP8),
)
WGMMA_ACCUMULATOR_BITS = tuple((element, 13) for element in FP8)

PLAIN = SimtTarget("plain", 32, 48 << 10, 255, 1024)
GENERIC = replace(PLAIN, name="generic", shuffles=True)
CP_ASYNC = replace(
    GENERIC,
    name="cp_async",
    shared_bytes=96 << 10,
    cp_async_bytes=(4, 8, 16),
    ops=EmittedOps(narrow=narrow_rules(arithmetic=(F16,))),
)
MMA = replace(
    CP_ASYNC,
    name="mma",
    shared_bytes=160 << 10,
    mma_shapes=(
        MmaShape(16, 8, 16, 16),
        MmaShape(16, 8, 8, 16),
        MmaShape(16, 8, 8, 32),
        MmaShape(16, 8, 4, 32),
        MmaShape(16, 8, 32, 8),
        MmaShape(16, 8, 16, 8),
        MmaShape(8, 8, 16, 8),
        MmaShape(16, 8, 16, 64),
        MmaShape(16, 8, 8, 64),
        MmaShape(16, 8, 4, 64),
        MmaShape(8, 8, 4, 64),
    ),
    mma_types=(
        (MmaShape(16, 8, 16, 8), (I8, U8)),
        (MmaShape(8, 8, 16, 8), (I8, U8)),
    ),
    has_ldmatrix=True,
    has_stmatrix=True,
    ops=EmittedOps(narrow=narrow_rules(NARROW_FLOATS, NARROW_FLOATS)),
    packed_extremes=(F16, BF16),
    warp_reductions=tuple((element, REDUCTIONS) for element in (I32, U32)),
    vector_atomics=((F32, 4), (F16, 8), (BF16, 8)),
)
WGMMA = replace(
    MMA,
    name="wgmma",
    shared_bytes=224 << 10,
    wgmma_shapes=tuple(wgmma_shapes(8, 16, 32)),
    wgmma_types=WGMMA_TYPES,
    wgmma_accumulator_bits=WGMMA_ACCUMULATOR_BITS,
    has_tma=True,
    approximate_division=True,
)
WARP64 = replace(GENERIC, name="warp64", warp_size=64)

TARGETS = {target.name: target for target in (PLAIN, GENERIC, CP_ASYNC, MMA, WGMMA, WARP64)}


def atomic_vector_width(op: Operation, target: SimtTarget) -> int:
    """Return how many contiguous elements one lane combines in one atomic instruction, at most."""
    if op.defn is not memory.atomic_rmw or op["kind"] is not RMWKind.ADD or op.result.uses:
        return 1
    element = op.result.type.element
    return target.vector_atomic_width(element) if isinstance(element, Scalar) else 1
