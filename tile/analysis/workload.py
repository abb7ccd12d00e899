"""The work of one program of a kernel on TILE IR: operations, bytes, and the tiles it is made of.

Counts are for given arguments: loop bounds are evaluated from them, for a program in the middle of
the grid, so that loops whose length depends on the program have about their mean length. Masks
are not evaluated; each access counts with all its elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tile.analysis.dot_tiles import feeds_dot
from tile.analysis.liveness import liveness
from tile.analysis.pointer_blocks import PointerBlocks
from tile.ir import semantics
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.effects import accesses_global, constant_of
from tile.ir.op_definition import Trait
from tile.ir.ops import arith, control, descriptor, memory, program
from tile.ir.ops import shape as shapes
from tile.ir.types import I1, I32, I64, Pointer, Scalar, Tile, Type

TRIP_COUNT = 16  # of a loop whose bounds depend on memory
_BRANCH = 0.5  # of the operations in a branch, whichever is taken
_MOST_TRIPS = 1 << 24

# Accesses of descriptors: the operation, and which of its values has the block.
_BLOCK_LOADS = frozenset({descriptor.descriptor_load, descriptor.descriptor_gather})
_FILLED = frozenset({arith.const, shapes.splat, shapes.broadcast, shapes.expand_dims})
_BLOCK_STORES = frozenset(
    {descriptor.descriptor_store, descriptor.descriptor_reduce, descriptor.descriptor_scatter}
)


@dataclass(frozen=True)
class TiledOp:
    """A dot, reduction or memory access of a kernel, on a tile.

    name: its kind, and its number among those of the kind: `dot0`, `load2`.
    shape: of a dot (batch,) m, n and k; of others the tile.
    count: how often a program executes it.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    element: Scalar
    count: float
    op: Operation

    @property
    def tile(self) -> tuple[int, ...]:
        """The shape of the tile that threads share: for a dot, its result's."""
        return self.shape[:-1] if self.kind == "dot" else self.shape

    @property
    def in_loop(self) -> bool:
        """True for an operation in a region of another one."""
        return self.op.parent is not None

    @property
    def bytes(self) -> int:
        """The bytes of an accessed tile."""
        return math.prod(self.shape) * max(1, self.element.bits // 8)


@dataclass(frozen=True)
class Workload:
    """The work of one program.

    flops: operations of elementwise arithmetic.
    live_bytes: the most bytes of tiles that are live at a time, without operands of dots that are
        loaded for them alone, as these need not be in registers; pointers and masks.
    """

    tiles: tuple[TiledOp, ...]
    flops: float
    live_bytes: int = 0

    def of_kind(self, kind: str) -> list[TiledOp]:
        """Return the dots, reductions, loads or stores."""
        return [tiled for tiled in self.tiles if tiled.kind == kind]

    @property
    def dot_flops(self) -> float:
        """Operations of all dots."""
        return sum(2.0 * math.prod(dot.shape) * dot.count for dot in self.of_kind("dot"))

    @property
    def bytes(self) -> float:
        """Bytes of global memory that a program accesses, without reuse by caches."""
        accesses = [*self.of_kind("load"), *self.of_kind("store")]
        return sum(access.bytes * access.count for access in accesses)

    @property
    def loop_bytes(self) -> int:
        """The bytes per iteration of the loop that loads the most; 0 without loops."""
        return max(self._by_block("load", lambda load: load.bytes, loops=True), default=0)

    def _by_block(
        self, kind: str, size: Callable[[TiledOp], int], *, loops: bool = False
    ) -> Iterable[int]:
        """Return the sums of `size` over the tiles of each block inside a loop."""
        sums: dict[Block | None, int] = {}
        for tiled in self.of_kind(kind):
            block = tiled.op.block
            if not loops or (block is not None and block.parent is not None):
                sums[block] = sums.get(block, 0) + size(tiled)
        return sums.values()

    @property
    def loads_blocks_in_loops(self) -> bool:
        """True if a loop loads blocks by descriptors."""
        return any(load.op.defn in _BLOCK_LOADS and load.in_loop for load in self.of_kind("load"))

    def pointer_blocks_in_loops(self) -> dict[str, int]:
        """Return the axes of the blocks that loads through pointers, for dots in a loop, read.

        They are those that are proven, by the names of the loads.
        """
        loads = [
            load
            for load in self.of_kind("load")
            if load.op.defn is memory.load and load.in_loop and feeds_dot(load.op.result)
        ]
        if not loads:
            return {}
        blocks = PointerBlocks(loads[0].op.function)
        pairs = [(load.name, blocks.find(load.op)) for load in loads]
        return {name: len(block.axes) for name, block in pairs if block is not None}

    @property
    def accumulator_bytes(self) -> int:
        """The bytes of the largest accumulator of a dot, and of the largest tile without dots."""
        dots = [_bytes(dot.op.inputs[2].type) for dot in self.of_kind("dot")]
        return max(dots or [tiled.bytes for tiled in self.tiles], default=0)


def workload(
    kernel: Function, arguments: Sequence[Any] = (), grid: Sequence[int] = (1, 1, 1)
) -> Workload:
    """Return the work of a program of a kernel.

    arguments: the value of each kernel parameter; None for one that is unknown, as for arrays.
    """
    count = _Count(dict(zip(kernel.args, arguments, strict=False)), grid)
    count.block(kernel.body, 1.0)
    live = max((sum(map(_held_bytes, values)) for _, values in liveness(kernel).sweep()), default=0)
    return Workload(tuple(count.tiles), count.flops, live)


def _held_bytes(value: Value) -> int:
    """Return the bytes of registers that a value takes, by the rule of `Workload.live_bytes`."""
    ty, op = value.type, value.op
    if not isinstance(ty, Tile) or not isinstance(ty.element, Scalar) or ty.element in (I1, I32):
        return 0
    if op is not None and (op.defn in _FILLED or _is_operand(value)):
        return 0
    return _bytes(ty)


def _is_operand(value: Value) -> bool:
    """Return True for a loaded tile that only dots multiply, whatever its shape is meanwhile."""
    op = value.op
    if op is not None and op.defn is shapes.trans:
        value, op = op.inputs[0], op.inputs[0].op
    loaded = op is not None and any(kind == "load" for kind, _, _ in _tiled(op))
    return loaded and all(
        user.defn is shapes.trans or (user.has_trait(Trait.DOT) and index < 2)
        for user, index in value.uses
    )


def named_tiles(function: Function) -> dict[Operation, str]:
    """Return the dots, reductions, loads and stores of a function with their names."""
    names: dict[Operation, str] = {}
    numbers: dict[str, int] = {}
    for op in function.walk():
        for kind, _, _ in _tiled(op):
            names[op] = f"{kind}{numbers.setdefault(kind, 0)}"
            numbers[kind] += 1
    return names


class _Count:
    def __init__(self, numbers: Mapping[Value, Any], grid: Sequence[int]) -> None:
        self.numbers: dict[Value, Any] = {v: n for v, n in numbers.items() if n is not None}
        self.grid = grid
        self.tiles: list[TiledOp] = []
        self.flops = 0.0

    def block(self, block: Block, count: float) -> None:
        for op in block:
            if op.regions and not op.defn.isolated:
                inner = count * (self.trips(op) if op.has_trait(Trait.LOOP) else _BRANCH)
                for region in op.regions:
                    self.block(region, inner)
                continue
            for kind, shape, element in _tiled(op):
                number = sum(other.kind == kind for other in self.tiles)
                self.tiles.append(TiledOp(f"{kind}{number}", kind, shape, element, count, op))
            if op.defn.elementwise and op.defn.pure and isinstance(op.result.type, Tile):
                self.flops += count * math.prod(op.result.type.shape)

    def trips(self, loop: Operation) -> float:
        """Return the trip count of a loop."""
        if loop.defn is not control.for_:
            return TRIP_COUNT
        bounds = [self.number(value) for value in loop.inputs[:3]]
        if None in bounds:
            return TRIP_COUNT
        lower, upper, step = (float(bound) for bound in bounds)
        return min(_MOST_TRIPS, max(0.0, -(-(upper - lower) // step))) if step else TRIP_COUNT

    def number(self, value: Value | None) -> Any:
        """Return the value of a scalar in the middle program; None if it is not known."""
        if value is None:
            return None
        if value not in self.numbers:
            self.numbers[value] = None  # of a value that depends on itself
            self.numbers[value] = self.evaluated(value)
        return self.numbers[value]

    def evaluated(self, value: Value) -> Any:
        constant, op = constant_of(value), value.op
        if constant is not None or op is None or isinstance(value.type, Tile):
            return constant
        if op.defn is program.program_id:
            return (self.grid[op["axis"]] - 1) // 2
        if op.defn is program.num_programs:
            return self.grid[op["axis"]]
        if op.defn.semantics is None or op.regions or len(op.results) != 1:
            return None
        numbers = [self.number(operand) for operand in op.inputs]
        if None in numbers or any(isinstance(v.type, Pointer) for v in (value, *op.inputs)):
            return None
        if op.has_trait(Trait.DIVISION) and not numbers[1]:
            return None
        arrays = [
            semantics.constant(number, operand.type.element).reshape(1)
            for number, operand in zip(numbers, op.inputs, strict=True)
        ]
        with semantics.quiet():
            result = op.defn.semantics(*arrays, **op.attributes)
        return result.reshape(-1)[0].item()


def _tiled(op: Operation) -> Iterator[tuple[str, tuple[int, ...], Scalar]]:
    """Yield the kind, shape and element of an operation that is a dot, reduction or access."""
    if op.has_trait(Trait.DOT):
        a, acc = op.inputs[0].type, op.inputs[2].type
        yield "dot", (*acc.shape, a.shape[-1]), _scalar(a)
    elif op.has_trait(Trait.COMBINE):
        yield "reduce", op.inputs[0].type.shape, _scalar(op.inputs[0].type)
    elif op.defn in _BLOCK_LOADS:
        yield "load", op.result.type.shape, _scalar(op.result.type)
    elif op.defn in _BLOCK_STORES:
        yield "store", op.inputs[1].type.shape, _scalar(op.inputs[1].type)
    elif op.defn is memory.load:
        yield "load", op.result.type.shape, _scalar(op.result.type)
    elif accesses_global(op):
        pointed = op.inputs[0].type.element
        assert isinstance(pointed, Pointer)
        element = pointed.pointee
        element = element if isinstance(element, Scalar) else I64
        yield "store", op.inputs[0].type.shape, element


def _scalar(ty: Type) -> Scalar:
    element = ty.element
    return element if isinstance(element, Scalar) else I64


def _bytes(ty: Type) -> int:
    return math.prod(ty.shape) * max(1, _scalar(ty).bits // 8)
