"""Products of threads by themselves, cut along k so that few registers hold factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tile.ir.builder import create
from tile.ir.core import Block, Function, Module, Operation, Value
from tile.ir.levels import Level
from tile.ir.ops import arith, control, linalg, shape
from tile.ir.passes import module_pass
from tile.ir.types import F16, F32, I32, Shared, with_layout, with_shape
from tile.simt import ops
from tile.simt.factors import thread_factors
from tile.simt.layout_rules import LayoutBuilder, layout_of
from tile.simt.layouts.banks import Banks
from tile.simt.layouts.layout import LinearLayout
from tile.simt.layouts.pieces import divided, in_pieces
from tile.simt.layouts.shared_conversion import conflict_free
from tile.simt.pipeline_loops.readers import CHEAP
from tile.simt.product_pieces import K_AXES, is_cut, part_extent, piece_extent, tile_of
from tile.simt.target import GENERIC, SimtTarget
from tile.transforms.dce import remove_dead


@module_pass("cut-products", before=Level.LAID_OUT)
def cut_products(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Multiply in pieces where a thread has no room for the factors of a product by itself.

    A loop reads one piece after the other from shared memory and adds its product, so that the
    order of sums stays that of k. Factors that are in a buffer already are read from there.

        %a = convert_layout %x                    %m = alloc : shared<128x64xf32, #s>
        %b = local_load %n                        local_store %m, %x
        %d = dot %a, %b, %c                       %d = for %i = 0 to 16 step 1 iter(%t = %c) {
                                                    %a = local_load_part %m, %i {axis = -1}
                                                    %b = local_load_part %n, %i {axis = -2}
                                                    %u = dot %a, %b, %t
                                                    yield %u
                                                  }

    Of a factor that would take more of the shared memory than `product_pieces` lets it, a part is
    stored at a time, in a loop around that one: `local_store_part %m, %x, %j {axis = -1}`. Sums of
    f16 are kept in f32 until the last piece.
    """
    for function in module:
        _cut_all(function, target)


def _cut_all(function: Function, target: SimtTarget) -> None:
    for op in list(function.walk()):
        if is_cut(op, target):
            _cut(op, target)
    remove_dead(function)


# -- factors


@dataclass(frozen=True)
class _Factor:
    """A factor of a product, and how its pieces come to be read.

    It is `source`, but for the operations `between`: what was loaded from the buffer `mem`, or a
    tile in registers, for which there is no buffer yet. `axis` is that of k there.
    """

    axis: int
    source: Value
    wanted: LinearLayout  # the layout of the source in which the product's own would be read
    between: tuple[Operation, ...] = ()
    mem: Value | None = None

    @classmethod
    def of(cls, value: Value, axis: int) -> _Factor:
        between: list[Operation] = []
        op, k = value.op, axis
        while op is not None and op.defn in CHEAP:
            between.insert(0, op)
            if op.defn is shape.trans:
                k = op["order"][k] - len(op["order"])
            op = op.inputs[0].op
        if op is not None and op.defn is ops.shared.local_load and not op["mask"]:
            return cls(k, op.result, layout_of(op.result), tuple(between), op["mem"])
        op = value.op
        converted = op is not None and op.defn is ops.layout.convert_layout
        source = op.inputs[0] if op is not None and converted else value
        return cls(axis, source, layout_of(value))

    def stored(self, build: LayoutBuilder, part: int, piece: int, banks: Banks) -> _Factor:
        """The factor with a buffer for a part of k, and, if that is all of k, stored there."""
        tile, layout = tile_of(self.source), layout_of(self.source)
        bits = 8 * tile.of.itemsize
        shared = _buffer_layout(layout, self.wanted, self.axis, part, piece, bits, banks)
        mem = build(ops.shared.alloc, result=Shared(shared.shape, tile.of, shared))
        if shared.shape == tile.shape:
            build.op(ops.shared.local_store, mem, self.source)
        return replace(self, mem=mem)

    @property
    def is_whole(self) -> bool:
        """Whether the buffer has all of k."""
        assert self.mem is not None
        return tuple(self.mem.type.shape) == tuple(self.source.type.shape)

    def read(self, build: LayoutBuilder, number: Value, layout: LinearLayout) -> Value:
        """A piece of the factor from the buffer, in a layout."""
        for op in reversed(self.between):
            layout = CHEAP[op.defn](op, layout)
        result = with_layout(with_shape(layout.shape, self.source.type.element), layout)
        load = ops.shared.local_load_part
        piece = build(load, self.mem, number, axis=self.axis, result=result)
        for op in self.between:
            piece = build(op.defn, piece, **op.attributes)
        return piece

    def forget(self) -> None:
        """Erase the read of the buffer as a whole, unless others need it."""
        assert self.source.op is not None
        for op in (*reversed(self.between), self.source.op):
            if not op.result.uses:
                op.erase()


@lru_cache(maxsize=1024)
def _buffer_layout(
    source: LinearLayout,
    read: LinearLayout,
    axis: int,
    part: int,
    piece: int,
    bits: int,
    banks: Banks,
) -> LinearLayout:
    """The layout of a buffer for a part of k, stored from one layout and read in another."""
    pieces = divided(in_pieces(read, axis, piece), axis, part)
    return conflict_free(divided(source, axis, part), pieces, bits, banks)


# -- loops


def _cut(op: Operation, target: SimtTarget) -> None:
    build = LayoutBuilder.before(op)
    k, piece = op.inputs[0].type.shape[-1], piece_extent(op, target)
    factors = [_Factor.of(value, axis) for value, axis in zip(op.inputs[:2], K_AXES, strict=True)]
    missing = [index for index, factor in enumerate(factors) if factor.mem is None]
    part = part_extent(op, missing, target)
    for index in missing:
        factors[index] = factors[index].stored(build, part, piece, target.banks)
    acc = op.inputs[2]
    wide = build(arith.cast, acc, to=F32) if acc.type.element == F16 else acc
    total = _Product(build, op, factors, k // part, part // piece).by_parts(wide)
    op.replace_by([total if wide is acc else build(arith.cast, total, to=F16)])
    for index in {0, 1} - {*missing}:
        factors[index].forget()


@dataclass(frozen=True)
class _Product:
    """A product of `parts` parts, of `pieces` pieces each."""

    build: LayoutBuilder
    op: Operation
    factors: Sequence[_Factor]
    parts: int
    pieces: int

    def by_parts(self, acc: Value) -> Value:
        """Store one part after the other, if there are several, and multiply its pieces."""
        build = self.build
        if self.parts == 1:
            return self.by_pieces(acc, None)

        def turn(part: Value, total: Value) -> Value:
            for factor in self.factors:
                if not factor.is_whole:
                    store = ops.shared.local_store_part
                    build.op(store, factor.mem, factor.source, part, axis=factor.axis)
            return self.by_pieces(total, part)

        return _loop(build, self.parts, acc, turn)

    def by_pieces(self, acc: Value, part: Value | None) -> Value:
        """Multiply the pieces of a part, and add that to the accumulator."""
        build = self.build
        before = None
        if part is not None:
            before = build(arith.mul, part, build.constant(self.pieces, I32))

        def turn(piece: Value, total: Value) -> Value:
            number = piece if before is None else build(arith.add, before, piece)
            a, b = (
                factor.read(build, number if factor.is_whole else piece, layout)
                for factor, layout in zip(self.factors, self.layouts, strict=True)
            )
            return build(linalg.dot, a, b, total, **self.op.attributes)

        return _loop(build, self.pieces, acc, turn)

    @property
    def layouts(self) -> tuple[LinearLayout, LinearLayout]:
        """Those of the factors' pieces."""
        k = self.op.inputs[0].type.shape[-1] // (self.parts * self.pieces)
        return thread_factors(layout_of(self.op.result), k)


def _loop(
    build: LayoutBuilder, count: int, acc: Value, turn: Callable[[Value, Value], Value]
) -> Value:
    """Count to `count` while `turn` makes the next of each accumulator; the last one."""
    first, end, step = (build.constant(number, I32) for number in (0, count, 1))
    body = Block([I32, acc.type], ["piece", acc.name])
    with build.into(body):
        build.op(control.yield_, turn(*body.args))
    wishes = {"num_stages": 1}
    loop = create(control.for_, [first, end, step, acc], wishes, [body], build.loc)
    loop.result.type = acc.type
    return build.block.insert(loop, build.anchor).result
