"""Slice FMA dots along k, so that their operands take few registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tile.ir.builder import create
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import arith, control, dot
from tile.ir.passes import module_pass
from tile.ir.shared_type import Shared
from tile.ir.types import F16, F32, I32, with_layout, with_shape
from tile.simt import ops
from tile.simt.layouts.axes import slice_layout, sliced
from tile.simt.layouts.conversion import conflict_free
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import fma_operand_layouts
from tile.simt.layouts.shared_access import Banks
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of, tile_type
from tile.simt.schedule.buffered_operands import RELABELED, BufferedOperand
from tile.simt.schedule.dot_slices import K_AXES, is_sliced, slice_extent, stored_extent
from tile.simt.schedule.pipeline_loops.buffer_readers import CHEAP_IN_ANY_LAYOUT
from tile.simt.target import GENERIC, SimtTarget
from tile.transforms.dce import remove_dead


@module_pass("slice-dots", before=Level.LAID_OUT)
def slice_dots(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Slice a dot along k where a thread lacks registers for the operands of an FMA dot.

    A loop loads one k-slice after the other from shared memory and accumulates its dot, so that
    sums stay in the order of k. Operands that are in a buffer already are read from there.

        %a = convert_layout %x                    %m = local_alloc : shared<128x64xf32, #s>
        %b = local_load %n                        local_store %m, %x
        %d = dot %a, %b, %c                       %d = for %i = 0 to 16 step 1 iter(%t = %c) {
                                                    %a = local_load_slice %m, %i {axis = -1}
                                                    %b = local_load_slice %n, %i {axis = -2}
                                                    %u = dot %a, %b, %t
                                                    yield %u
                                                  }

    An operand that would exceed the share of shared memory that `dot_slices` allows is stored
    one slice at a time, in a loop around that one: `local_store_slice %m, %x, %j {axis = -1}`. f16
    accumulators are kept in f32 until the last slice.
    """
    for function in module:
        _cut_all(function, target)


def _cut_all(function: Function, target: SimtTarget) -> None:
    dots = [op for op in function.walk() if op.defn is dot.dot]
    for op in dots:
        if is_sliced(op, target):
            _cut(op, target)
    if dots:
        remove_dead(function)


# -- operands


@dataclass(frozen=True)
class _Operand:
    """An operand of a dot, and the buffer that its k-slices are loaded from.

    `source` is the tile, of which a load from a buffer, `loaded`, is the operand after some
    operations. Of these, the `casts` are done to each slice. `mem` is the buffer, with the
    operand's axes; None if `source` is in registers and has no buffer yet. `axis` is the axis of k.
    """

    axis: int
    source: Value
    read_layout: LinearLayout
    mem: Value | None = None
    loaded: BufferedOperand | None = None

    @classmethod
    def of(cls, build: LayoutBuilder, value: Value, axis: int) -> _Operand:
        layout, loaded = layout_of(value), BufferedOperand.of(value, CHEAP_IN_ANY_LAYOUT)
        if loaded is not None:
            return cls(axis, loaded.load.result, layout, loaded.buffer(build), loaded)
        op = value.op
        converted = op is not None and op.defn is ops.layout.convert_layout
        return cls(axis, op.inputs[0] if op is not None and converted else value, layout)

    @property
    def casts(self) -> list[Operation]:
        between = self.loaded.between if self.loaded else ()
        return [op for op in between if op.defn not in (*RELABELED, arith.hint)]

    def stored(self, build: LayoutBuilder, part: int, extent: int, banks: Banks) -> _Operand:
        """Return the operand with a buffer for `part` elements of k; store it there if it fits."""
        tile, layout = tile_type(self.source), layout_of(self.source)
        bits = tile.of.storage_bits
        slices = slice_layout(sliced(self.read_layout, self.axis, extent), self.axis, part)
        shared = conflict_free(slice_layout(layout, self.axis, part), slices, bits, banks)
        mem = build(ops.shared.local_alloc, result=Shared(shared.shape, tile.of, shared))
        if shared.shape == tile.shape:
            build.op(ops.shared.local_store, mem, self.source)
        return replace(self, mem=mem)

    @property
    def is_whole(self) -> bool:
        """True if the buffer has all of k."""
        assert self.mem is not None
        return self.loaded is not None or tuple(self.mem.type.shape) == self.source.type.shape

    def read(self, build: LayoutBuilder, number: Value, layout: LinearLayout) -> Value:
        """Load slice number `number` of the operand from the buffer, in a layout."""
        result = with_layout(with_shape(layout.shape, self.source.type.element), layout)
        load = ops.shared.local_load_slice
        loaded = build(load, self.mem, number, axis=self.axis, result=result)
        for each in self.casts:
            loaded = build(each.defn, loaded, **each.attributes)
        return loaded


# -- loops


def _cut(op: Operation, target: SimtTarget) -> None:
    build = LayoutBuilder.before(op)
    k, extent = op.inputs[0].type.shape[-1], slice_extent(op, target)
    operands = [
        _Operand.of(build, value, axis) for value, axis in zip(op.inputs[:2], K_AXES, strict=True)
    ]
    missing = [index for index, operand in enumerate(operands) if operand.mem is None]
    part = stored_extent(op, missing, target)
    for index in missing:
        operands[index] = operands[index].stored(build, part, extent, target.banks)
    acc = op.inputs[2]
    wide = build(arith.cast, acc, to=F32) if acc.type.element == F16 else acc
    total = _SlicedDot(build, op, operands, k // part, part // extent).by_parts(wide)
    op.replace_by([total if wide is acc else build(arith.cast, total, to=F16)])
    for operand in operands:
        if operand.loaded is not None:
            operand.loaded.erase()


@dataclass(frozen=True)
class _SlicedDot:
    """A dot of `parts` parts, of `slices` slices each."""

    build: LayoutBuilder
    op: Operation
    operands: Sequence[_Operand]
    parts: int
    slices: int

    def by_parts(self, acc: Value) -> Value:
        """Store one part after the other, if there are several, and multiply its slices."""
        build = self.build
        if self.parts == 1:
            return self.by_slices(acc, None)

        def body(part: Value, total: Value) -> Value:
            for operand in self.operands:
                if not operand.is_whole:
                    store = ops.shared.local_store_slice
                    build.op(store, operand.mem, operand.source, part, axis=operand.axis)
            return self.by_slices(total, part)

        return _loop(build, self.parts, acc, body)

    def by_slices(self, acc: Value, part: Value | None) -> Value:
        """Multiply the slices of a part, and add them to the accumulator."""
        build = self.build
        before = None
        if part is not None:
            before = build(arith.mul, part, build.constant(self.slices, I32))

        def body(index: Value, total: Value) -> Value:
            number = index if before is None else build(arith.add, before, index)
            a, b = (
                operand.read(build, number if operand.is_whole else index, layout)
                for operand, layout in zip(self.operands, self.layouts, strict=True)
            )
            return build(dot.dot, a, b, total, **self.op.attributes)

        return _loop(build, self.slices, acc, body)

    @property
    def layouts(self) -> tuple[LinearLayout, LinearLayout]:
        """The layouts of the operands' slices."""
        k = self.op.inputs[0].type.shape[-1] // (self.parts * self.slices)
        return fma_operand_layouts(layout_of(self.op.result), k)


def _loop(
    build: LayoutBuilder, count: int, acc: Value, next_acc: Callable[[Value, Value], Value]
) -> Value:
    """Build a loop of `count` iterations; `next_acc` computes each accumulator. Return the last."""
    first, end, step = (build.constant(number, I32) for number in (0, count, 1))
    body = Block([I32, acc.type], ["piece", acc.name])
    with build.into(body):
        build.op(control.yield_, next_acc(*body.args))
    attributes = {"num_stages": 1}
    loop = create(control.for_, [first, end, step, acc], attributes, [body], build.loc)
    loop.result.type = acc.type
    return build.block.insert(loop, build.anchor).result
