"""TMA loads, stores and reductions, and the mbarriers on which loads complete.

One thread of the first warp issues them, the one that `elect.sync` chooses (elect.py), which is
always the same: so ptxas sees that no other thread does, and emits no loop around each instruction.
A descriptor block is copied in TMA boxes (`tile/simt/hopper/tma_boxes.py`), all by one tensor map,
which is a kernel parameter that the launcher encodes. (PTX ISA, "cp.async.bulk.tensor" and
"mbarrier".)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from tile.analysis.uniformity import LaunchExpression, launch_address, launch_value
from tile.backends.nvptx.emit.elect import elect_one
from tile.backends.nvptx.emit.function_builder import FunctionBuilder, SharedAddress
from tile.backends.nvptx.emit.inline_asm import Operand, assemble
from tile.backends.nvptx.emit.memory import SHARED
from tile.backends.nvptx.emit.registers import warp_index
from tile.backends.nvptx.emit.shared import MEMORY, parity_of, stage_address
from tile.backends.nvptx.launch_metadata import LaunchValue, TensorMap
from tile.backends.nvptx.target import WARP
from tile.codegen.llvm.function_builder import Rule
from tile.errors import CompilationError
from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import memory
from tile.ir.ops.memory import RMWKind
from tile.ir.shared_type import shared_of
from tile.ir.types import I64, U64, Scalar
from tile.simt import ops
from tile.simt.hopper.tma_boxes import BlockStrips, block_strips
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.warp_specialize import WARPGROUP_WARPS
from tile.simt.tma_uses import parse_tma_uses

T = TypeVar("T")
MBARRIER_BYTES = 8
UNIT = 16  # bytes; TMA prefetches multiples of it


def first_warp(builder: FunctionBuilder, active: Value | None = None) -> str:
    """Return an i1: this is the first warp of its partition, and `active` is true."""
    if builder.in_producer:  # which only its first warp executes
        return "true" if active is None else builder.scalar(active)
    first = builder.in_prologue(f"icmp eq i32 {warp_index(builder, WARP)}, 0")
    if active is None:
        return first
    return builder.new(f"and i1 {first}, {builder.scalar(active)}")


def _each_mbarrier(builder: FunctionBuilder, op: Operation, text: str) -> None:
    """Emit an instruction on every mbarrier of a multi-buffer, by one thread."""
    start = builder.buffers[op["bars"]].offset
    offsets = [start + stage * MBARRIER_BYTES for stage in range(shared_of(op["bars"].type).stages)]
    lines = [text.format(f"[$1+{offset}]") for offset in offsets]
    elect_one(builder, lines, [("i1", first_warp(builder)), (SHARED, MEMORY)], op)


def mbarrier_init(builder: FunctionBuilder, op: Operation) -> None:
    """A phase completes when `count` threads have arrived and all expected bytes been copied."""
    _each_mbarrier(builder, op, f"mbarrier.init.shared::cta.b64 {{}}, {op['count']}")


def mbarrier_inval(builder: FunctionBuilder, op: Operation) -> None:
    """The memory of the mbarriers may be used for anything after this."""
    _each_mbarrier(builder, op, "mbarrier.inval.shared::cta.b64 {}")


def mbarrier_address(builder: FunctionBuilder, op: Operation) -> SharedAddress:
    """Return the address of the mbarrier of an iteration."""
    address, iteration = builder.buffers[op["bars"]], builder.scalar(op["iteration"])
    return stage_address(
        builder, address, iteration, op["stage_offset"], shared_of(op["bars"].type)
    )


def pointer_of(builder: FunctionBuilder, address: SharedAddress) -> str:
    """Return a pointer to an address without its constant offset."""
    if address.base == "0":
        return MEMORY
    return builder.new(f"getelementptr i8, {SHARED} {MEMORY}, i32 {address.base}")


def mbarrier_arrive_expect_tx(builder: FunctionBuilder, op: Operation) -> None:
    """Arrive by one thread, and expect the bytes of copies."""
    address = mbarrier_address(builder, op)
    text = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$1+{address.offset}], {op['size']}"
    operands = [("i1", first_warp(builder, op["active"])), (SHARED, pointer_of(builder, address))]
    elect_one(builder, [text], operands, op)


def mbarrier_wait(builder: FunctionBuilder, op: Operation) -> None:
    """Retry until the phase has completed; each try suspends the thread for a while by itself."""
    parity = parity_of(
        builder,
        builder.scalar(op["iteration"]),
        op["stage_offset"],
        shared_of(op["bars"].type).stages,
    )
    address = mbarrier_address(builder, op)
    text = (
        "{ .reg .pred p; again: "
        f"mbarrier.try_wait.parity.shared::cta.b64 p, [$0+{address.offset}], $1; @!p bra again; }}"
    )
    operands = [(SHARED, pointer_of(builder, address)), ("i32", parity)]
    assemble(builder, text, [], operands, memory=True)


def mbarrier_arrive(builder: FunctionBuilder, op: Operation) -> None:
    """Arrive by one thread of each warp, once all of its lanes have read."""
    address = mbarrier_address(builder, op)
    builder.call("@llvm.nvvm.bar.warp.sync", "void", ("i32", "-1"))
    text = f"mbarrier.arrive.shared::cta.b64 _, [$1+{address.offset}]"
    elect_one(builder, [text], [("i1", "true"), (SHARED, pointer_of(builder, address))], op)


def load_text(
    mbarrier: SharedAddress, mode: str = "", multicast: str = "", operands: str = ""
) -> str:
    """Return the text of a TMA load, with places for what `copy_by_tma` fills in."""
    name = f"cp.async.bulk.tensor.{{rank}}d.shared::cluster.global{mode}"
    name += f".mbarrier::complete_tx::bytes{multicast}"
    return f"{name} [$1+{{byte}}], [$2, {{{{{{index}}}}}}], [$3+{mbarrier.offset}]{operands}"


def tma_load(builder: FunctionBuilder, op: Operation) -> None:
    """Emit an instruction for each TMA box of the descriptor block."""
    mbarrier = mbarrier_address(builder, op)
    predicate = first_warp(builder, op["active"])
    _copy(builder, op, load_text(mbarrier), predicate, (SHARED, pointer_of(builder, mbarrier)))


def tma_load_im2col(builder: FunctionBuilder, op: Operation) -> None:
    """Emit an instruction for each strip of channels."""
    mbarrier, strips = mbarrier_address(builder, op), strips_of(op)
    _, _, index, offsets = ops.tma.array_operands(op)
    *pixel, channel = [builder.scalar(value) for value in index]
    moves = [builder.new(f"trunc i32 {builder.scalar(value)} to i16") for value in offsets]
    pixels = strips.shape[0]
    window = (op["lower"], op["upper"], op["steps"])
    map_ = tensor_map_of(op, strips, (pixels, strips.width))._replace(window=window)
    shifts = ", ".join([f"${number}" for number in range(4, 4 + len(moves))])
    text = load_text(mbarrier, ".im2col", operands=f", {{{{{shifts}}}}}")
    # TMA counts axes from the innermost one.
    more = [(SHARED, pointer_of(builder, mbarrier)), *[("i16", move) for move in reversed(moves)]]
    boxes = (
        (strip * pixels * strips.row_bytes, [*pixel, _plus(builder, channel, strip * strips.width)])
        for strip in range(strips.count)
    )
    copy_by_tma(builder, op, text, first_warp(builder, op["active"]), map_, boxes, more)


def tma_store(builder: FunctionBuilder, op: Operation) -> None:
    """Emit an instruction for each TMA box of the descriptor block, and commit all of them."""
    instruction, kind = "cp.async", ""
    if op.defn is ops.tma.tma_reduce:
        instruction, kind = "cp.reduce.async", f".{op['kind']}"
    name = f"{instruction}.bulk.tensor.{{rank}}d.global.shared::cta{kind}.bulk_group"
    text = f"{name} [$2, {{{{{{index}}}}}}], [$1+{{byte}}]"
    if op.attributes.get("warpgroups", 1) > 1:
        _store_part(builder, op, text)
    else:
        _copy(builder, op, text, first_warp(builder))
    elect_one(builder, ["cp.async.bulk.commit_group"], [("i1", _issuing_warp(builder, op))], op)


def tma_store_wait(builder: FunctionBuilder, op: Operation) -> None:
    """Wait until stores have read, or are complete."""
    wait = f"cp.async.bulk.wait_group{'.read' if op['read'] else ''} {op['pending']}"
    elect_one(builder, [wait], [("i1", _issuing_warp(builder, op))], op)


def _issuing_warp(builder: FunctionBuilder, op: Operation) -> str:
    """Return an i1: this is the first warp of the program, or of its warpgroup."""
    if op.attributes.get("warpgroups", 1) == 1:
        return first_warp(builder)
    number = builder.in_prologue(f"and i32 {warp_index(builder, WARP)}, {WARPGROUP_WARPS - 1}")
    return builder.in_prologue(f"icmp eq i32 {number}, 0")


def _store_part(builder: FunctionBuilder, op: Operation, text: str) -> None:
    """Emit the stores of this warpgroup's part: an instruction for each TMA box of it."""
    strips, address, axis = strips_of(op), builder.buffers[op["mem"]], op["axis"]
    own = strips.shape[axis] // op["warpgroups"]
    at = len(strips.shape) + axis
    box_dim = tuple([min(n, own) if i == at else n for i, n in enumerate(strips.box_dim)])
    boxes = [box for box in strips.boxes(box_dim) if box.start[axis] < own]
    step = next(box.byte for box in strips.boxes(box_dim) if box.start[axis] == own)
    group = warp_index(builder, WARPGROUP_WARPS * WARP)
    _, _, index, _ = ops.tma.array_operands(op)
    first = [builder.scalar(value) for value in index]
    moved = builder.new(f"mul i32 {group}, {own}")
    first[axis] = builder.new(f"add i32 {first[axis]}, {moved}")
    begin = builder.new(f"mul i32 {group}, {step}")
    if address.base != "0":
        begin = builder.new(f"add i32 {begin}, {address.base}")
    place = pointer_of(builder, replace(address, base=begin))
    indices = ((box.byte, _sums(builder, first, box.start)) for box in boxes)
    map_ = tensor_map_of(op, strips, box_dim)
    copy_by_tma(builder, op, text, _issuing_warp(builder, op), map_, indices, (), buffer=place)


def _copy(
    builder: FunctionBuilder, op: Operation, text: str, predicate: str, *more: Operand
) -> None:
    """Emit the instructions that copy a block, by one thread of a warp with the predicate.

    text: an instruction with places for its `rank`, the `byte` of the buffer and the first `index`.
    Its operands are the predicate, the buffer, the tensor map, and `more`.

    With the option `tma=strips`, one instruction copies all strips if the array and the block
    consist of whole strips. Otherwise there is an instruction for each TMA box.
    """
    strips = strips_of(op)
    _, _, index, _ = ops.tma.array_operands(op)
    first = [builder.scalar(value) for value in index]
    whole = strips.whole_box_dim if parse_tma_uses(builder.module.options.tma).strips else None
    if whole is not None:
        extents, *_ = ops.tma.array_operands(op)
        is_whole = _is_multiple(builder, (builder.scalar(extents[-1]), first[-1]), strips.width)
        strip = builder.new(f"ashr i32 {first[-1]}, {strips.width.bit_length() - 1}")
        map_ = tensor_map_of(op, strips, whole)
        chosen = builder.new(f"and i1 {predicate}, {is_whole}")
        copy_by_tma(builder, op, text, chosen, map_, [(0, [strip, *first[:-1], "0"])], more)
        other = builder.new(f"xor i1 {is_whole}, true")
        predicate = builder.new(f"and i1 {predicate}, {other}")
    boxes = ((box.byte, _sums(builder, first, box.start)) for box in strips.boxes())
    copy_by_tma(builder, op, text, predicate, tensor_map_of(op, strips), boxes, more)


def _sums(builder: FunctionBuilder, index: Sequence[str], start: Sequence[int]) -> list[str]:
    """Return an index plus constants; the instructions are in the order of TMA's axes."""
    pairs = list(zip(index, start, strict=True))
    return [_plus(builder, *pair) for pair in reversed(pairs)][::-1]


def copy_by_tma(
    builder: FunctionBuilder,
    op: Operation,
    text: str,
    predicate: str,
    map_: TensorMap,
    boxes: Iterable[tuple[int, Sequence[str]]],
    more: Sequence[Operand],
    *,
    buffer: str | None = None,
) -> None:
    """Emit an instruction for each TMA box: its first byte in the buffer, and index in the map.

    buffer: points to the buffer, without its constant offset, or to a part of it.
    """
    address = builder.buffers[op["mem"]]
    place = buffer or pointer_of(builder, address)
    described = map_parameter(builder, map_)
    operands: list[Operand] = [("i1", predicate), (SHARED, place), ("ptr", described), *more]
    lines = []
    for byte, index in boxes:
        names = ", ".join(f"${len(operands) + number}" for number in range(len(index)))
        operands += [("i32", value) for value in reversed(index)]
        lines.append(text.format(rank=len(index), byte=address.offset + byte, index=names))
    elect_one(builder, lines, operands, op)


def prefetch(builder: FunctionBuilder, op: Operation) -> None:
    """Prefetch the units of 16 bytes that overlap with the memory, by one thread."""
    if not builder.module.arch.simt.has_tma:
        return
    pointer, size = (builder.scalar(operand) for operand in op.inputs)
    within = builder.new(f"trunc i64 {pointer} to i32")
    within = builder.new(f"and i32 {within}, {UNIT - 1}")
    size = builder.new(f"add i32 {size}, {within}")
    size = builder.new(f"add i32 {size}, {UNIT - 1}")
    size = builder.new(f"and i32 {size}, {-UNIT}")
    start = builder.new(f"and i64 {pointer}, {-UNIT}")
    text = "cp.async.bulk.prefetch.L2.global [$1], $2"
    elect_one(builder, [text], [("i1", first_warp(builder)), ("i64", start), ("i32", size)], op)


def map_parameter(builder: FunctionBuilder, map_: TensorMap) -> str:
    """Return the kernel parameter that is a tensor map.

    Programs prefetch their maps when they start: the first copy would wait for its map.
    """
    count = len(builder.module.maps)
    parameter = builder.module.tensor_map(map_)
    if len(builder.module.maps) > count:
        first = builder.in_prologue(f"icmp eq i32 {warp_index(builder, WARP)}, 0")
        start, elected = len(builder.lines), builder.elected
        builder.elected = None
        elect_one(builder, ["prefetch.tensormap [$1]"], [("i1", first), ("ptr", parameter)])
        builder.prologue += builder.lines[start:]
        del builder.lines[start:]
        builder.elected = elected
    return parameter


def _is_multiple(builder: FunctionBuilder, values: Sequence[str], number: int) -> str:
    """Return an i1: both values are multiples of a power of two."""
    bits = builder.new(f"or i32 {', '.join(values)}")
    rest = builder.new(f"and i32 {bits}, {number - 1}")
    return builder.new(f"icmp eq i32 {rest}, 0")


def strips_of(op: Operation) -> BlockStrips:
    """Return the strips of an operation's block."""
    mem = shared_of(op["mem"].type)
    assert isinstance(mem.layout, LinearLayout)
    strips = block_strips(mem.layout, mem.of.storage_bits)
    assert strips is not None, f"{mem} has a layout that TMA does not write"
    extents = op["extents"] if "extents" in op.attributes else ()
    return replace(strips, extents=extents)


def _plus(builder: FunctionBuilder, index: str, constant: int) -> str:
    return builder.new(f"add i32 {index}, {constant}") if constant else index


def tensor_map_of(
    op: Operation, strips: BlockStrips, box_dim: tuple[int, ...] | None = None
) -> TensorMap:
    """Return the map of the array that an operation copies, in TMA boxes of other extents if given.

    TMA boxes with an axis more than the block are of whole strips.
    """
    extents, strides, _, _ = ops.tma.array_operands(op)
    base, offset = _required(op, launch_address(op["ptr"]))
    element = op["mem"].type.of
    assert isinstance(element, Scalar)
    if element is I64 and op.defn is ops.tma.tma_reduce and op["kind"] is RMWKind.ADD:
        element = U64  # TMA adds these alone; the sums have the same bits
    return TensorMap(
        base.index,
        tuple([_launch_value(_required(op, launch_value(value))) for value in extents]),
        tuple([_launch_value(_required(op, launch_value(value))) for value in strides]),
        element.ir_name,
        box_dim or strips.box_dim,
        strips.swizzle,
        box_dim is not None and len(box_dim) > len(strips.shape),
        offset=_launch_value(offset),
        written=op.defn in (ops.tma.tma_store, ops.tma.tma_reduce),
    )


def _required(op: Operation, value: T | None) -> T:
    if value is None:
        raise CompilationError(
            f"the array of {op.name} is not known before the kernel runs", loc=op.loc
        )
    return value


def _launch_value(expression: LaunchExpression) -> LaunchValue:
    parameters = tuple([argument.index for argument in expression.arguments])
    return LaunchValue(parameters, expression.multiplier, expression.bits)


RULES: dict[OpDef, Rule] = {
    ops.tma.mbarrier_init: mbarrier_init,
    ops.tma.mbarrier_arrive_expect_tx: mbarrier_arrive_expect_tx,
    ops.tma.mbarrier_wait: mbarrier_wait,
    ops.tma.mbarrier_arrive: mbarrier_arrive,
    ops.tma.mbarrier_inval: mbarrier_inval,
    ops.tma.tma_load: tma_load,
    ops.tma.tma_load_im2col: tma_load_im2col,
    ops.tma.tma_store: tma_store,
    ops.tma.tma_reduce: tma_store,
    ops.tma.tma_store_wait: tma_store_wait,
    memory.prefetch: prefetch,
}
