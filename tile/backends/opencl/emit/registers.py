"""Emit operations on the registers of fragments, shuffles, and thread, program and layout indices.

Shuffles and warp reductions are sub-group functions or inline PTX. Sub-group functions take values
of any type. PTX shuffles 32-bit words, to which other types are converted.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from tile.backends.opencl.emit.arith import Element
from tile.backends.opencl.emit.function_builder import FunctionBuilder, Registers, Rule, each
from tile.backends.opencl.emit.helper_functions import reduction
from tile.backends.opencl.emit.register_arrays import (
    Index,
    RegisterArray,
    bare,
    linear,
    stored_array,
)
from tile.backends.opencl.emit.types import is_bits, is_integer, unsigned
from tile.codegen.emitter import element, nothing, overlap, register_offsets, thread_images
from tile.errors import UnsupportedError
from tile.ir.core import Operation, Value
from tile.ir.extents import is_power_of_two
from tile.ir.op_definition import OpDef
from tile.ir.ops import memory, program
from tile.ir.types import I1, Fragment, Pointer, count_of
from tile.simt import ops
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.f2 import terms, union
from tile.simt.layouts.linear_layout import LinearLayout


def shuffle(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a read of the lane with a given number."""
    _emit_shuffle(builder, op, "shuffle", builder.scalar(op.inputs[1]))


def shuffle_xor(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a read of the lane whose number differs by an XOR."""
    _emit_shuffle(builder, op, "shuffle_xor", f"{op['mask']}u")


def warp_reduce(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a reduction over all lanes of a warp, of 32-bit integers (`Capabilities.simt`)."""
    name = builder.use(reduction(op["kind"], op.result.type.element.is_int_signed()))
    each(builder, op, lambda x: f"{name}({x})", pure=False)


def _emit_shuffle(builder: FunctionBuilder, op: Operation, name: str, lane: str) -> None:
    x, device = op.inputs[0], builder.source.device
    ty: Element = x.type.element
    c_type, is_register = builder.source.carrier(ty), is_integer(ty) or is_bits(ty, device.fp16)
    if device.subgroups:
        builder.source.extensions |= {"cl_khr_subgroups", "cl_khr_subgroup_shuffle"}
        function = f"sub_group_{name}"
    else:
        function = builder.use(f"lane_{name}_64" if ty.bits == 64 else f"lane_{name}")

    def move(register: str) -> str:
        if ty is I1:
            return f"{function}((uint){register}, {lane}) != 0"
        if isinstance(ty, Pointer):
            return f"({c_type}){function}((ulong){register}, {lane})"
        if device.subgroups:
            return f"{function}({f'({c_type})' if is_register else ''}{register}, {lane})"
        if is_register:
            word = f"{function}({register}, {lane})"
            return word if ty.bits >= 32 else f"({c_type}){word}"
        bits = unsigned(ty.bits)
        word = f"{function}(as_{bits}({register}), {lane})"
        return f"as_{c_type}({word if ty.bits >= 32 else f'({bits}){word}'})"

    each(builder, op, move, pure=False, operands=[x])


THREAD = "thread"  # the work-item's number, a variable that every function begins with
LANE_OF_THREAD = "lane"  # on vectorizing CPUs, its low bits: the SIMD lane
PART_OF_THREAD = "part"  # and its high bits
PARTS = (THREAD, LANE_OF_THREAD, PART_OF_THREAD)


def program_id(builder: FunctionBuilder, op: Operation) -> None:
    """Emit the work-group's index along an axis."""
    builder.let(op, [f"get_group_id({op['axis']})"])


def num_programs(builder: FunctionBuilder, op: Operation) -> None:
    """Emit the number of work-groups along an axis."""
    builder.let(op, [f"get_num_groups({op['axis']})"])


def multiprocessor_id(builder: FunctionBuilder, op: Operation) -> None:
    """Emit the multiprocessor's number; only PTX has one."""
    has_ptx = builder.source.device.assembly > 0
    builder.let(op, [f"{builder.use('multiprocessor_id')}()" if has_ptx else "0"])


def global_timer(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a read of the clock, which OpenCL C lacks. Raises `UnsupportedError` without PTX."""
    if not builder.source.device.assembly:
        raise UnsupportedError(
            f"device {builder.source.device.name!r} has no clock that kernels can read; NVIDIA's "
            "devices and the interpreter have one"
        )
    builder.let(op, [f"{builder.use('global_timer')}()"], pure=False)


def thread_id(builder: FunctionBuilder, op: Operation) -> None:
    """Forward the variable of the thread's number."""
    builder.set(op, [THREAD])


def frag_gather(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a register selection by a variable number: one `?:` per bit, the lowest bit first."""
    x, index = op.inputs
    if builder.is_array(op.result):
        _pick_from_array(builder, op)
        return
    registers, ty = builder.of(x), builder.carrier(x)
    picked: dict[str, str] = {}
    for number in builder.of(index):
        if number not in picked:
            picked[number] = _picked(builder, ty, registers, number)
    builder.set(op, [picked[number] for number in builder.of(index)])


def _pick_from_array(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a `frag_gather` of arrays: one subscript per register."""
    source, numbers = builder.array_of(op.inputs[0]), builder.array_of(op.inputs[1])
    array = source.array or builder.fill_array(op.inputs[0], source.at).array
    builder.compute(op, lambda index: f"{array}[{numbers.at(index)}]")


def _picked(builder: FunctionBuilder, ty: str, registers: Registers, number: str) -> str:
    bit = 1
    registers = [builder.hoist_read(ty, register) for register in registers]
    while len(registers) > 1:
        pairs = list(zip(registers[::2], registers[1::2], strict=True))
        if any(x != y for x, y in pairs):
            names = builder.names.registers("picked", len(pairs))
            texts = [f"{number} & {bit} ? {y} : {x}" for x, y in pairs]
            builder.declare(ty, names, texts)
            registers = names
        else:
            registers = [x for x, _ in pairs]
        bit <<= 1
    return registers[0]


def fill(builder: FunctionBuilder, op: Operation) -> None:
    """Forward a scalar to all registers."""
    builder.set(op, [builder.scalar(op.inputs[0])] * op["count"])


def pick(builder: FunctionBuilder, op: Operation) -> None:
    """Forward registers by constant numbers."""
    numbers = op["registers"]
    if not builder.is_array(op.result):
        operands = [(builder.of(x), i) for x in op.inputs for i in range(count_of(x.type))]
        builder.set(op, [operands[number][0][operands[number][1]] for number in numbers])
        return
    source, before = _only_source(op)
    linear_map = None if source is None else linear([number - before for number in numbers])
    if source is None or linear_map is None:
        _collect(builder, op)
        return
    registers, (images, offset) = builder.array_of(source), linear_map

    def element(index: Index) -> str:
        return registers.at(index.through(images, offset))

    builder.set(op, RegisterArray(len(numbers), element, cost=registers.cost))


def _only_source(op: Operation) -> tuple[Value | None, int]:
    """Return the only operand that a `frag_shuffle` reads, or None; and the registers before it."""
    before = 0
    for value in op.inputs:
        count = count_of(value.type)
        if all(before <= number < before + count for number in op["registers"]):
            return value, before
        before += count
    return None, 0


def _collect(builder: FunctionBuilder, op: Operation) -> None:
    """Copy registers of several fragments, or in an order that is not linear, to a C array."""
    arrays = [builder.array_of(x) for x in op.inputs]
    name = builder.names.new(op.result.name or "v")
    builder.array(builder.carrier(op.result), name, len(op["registers"]))
    ends = list(accumulate(map(len, arrays)))
    statements = []
    for i, number in enumerate(op["registers"]):
        operand = bisect_right(ends, number)
        register = arrays[operand][number - ends[operand] + len(arrays[operand])]
        statements.append(f"{name}[{i}] = {register};")
    builder.join_parts("", statements, " ", "")
    builder.set(op, stored_array(name, len(statements)))


def layout_index(builder: FunctionBuilder, op: Operation) -> None:
    """Emit the image of a layout: one variable for the thread, combined with each register."""
    if isinstance(op.result.type, Fragment) and builder.is_array(op.result):
        builder.set(op, linear_index_array(builder, op["layout"], op.result.name or "at"))
        return
    numbers = linear_index_of(builder, op["layout"], op.result.name or "at")
    if isinstance(op.result.type, Fragment):
        builder.let(op, numbers)
    else:
        builder.set(op, numbers)


def linear_index_of(builder: FunctionBuilder, layout: LinearLayout, hint: str = "at") -> list[str]:
    """Return the image of a layout for each register of this thread, as expressions."""
    base, reached = _base(builder, layout, hint)
    return [_combined(base, reached, number) for number in register_offsets(layout)]


def linear_index_array(builder: FunctionBuilder, layout: LinearLayout, hint: str) -> RegisterArray:
    """Return the image of a layout for the registers of this thread, as a register array."""
    base, reached = _base(builder, layout, hint)
    images = layout.images(REGISTER)

    def element(index: Index) -> str:
        image = index.through(images)
        if not image.variables:
            text = _combined(base, reached, image.offset)
            return f"({text})" if " + " in text else text
        if base == "0":
            return image.text()
        common = reached & (image.reached | image.offset)
        return f"({base} {'^' if common else '+'} {image.text()})"

    return RegisterArray(1 << len(images), element)


def _base(builder: FunctionBuilder, layout: LinearLayout, hint: str) -> tuple[str, int]:
    """Return the image of the thread's number, and the bits that it can have."""
    images = thread_images(layout)
    device, simd_width = builder.source.device, builder.source.simd_width
    text = of_thread(images, simd_width, device.without_bit_reversal)
    base = text if text in ("0", *PARTS) else builder.temporary("uint", text, hint)
    return base, union(images)


def _combined(base: str, reached: int, offset: int) -> str:
    """Return `base ^ offset`, as a sum if they have no bit in common."""
    if offset == 0:
        return base
    if base == "0":
        return str(offset)
    return f"({base} ^ {offset})" if reached & offset else f"{base} + {offset}"


def of_thread(
    images: tuple[int, ...], simd_width: int = 1, without_bit_reversal: bool = False
) -> str:
    """Return the XOR of the images of the bits that are set in the thread's number.

    If `simd_width` work-items run in one vector, the terms of the bits in which they differ are
    separate, so that a runtime sees that the other terms are uniform. Terms with disjoint bits are
    added, so that it also sees that adjacent work-items have contiguous indices.

    without_bit_reversal: whether LLVM must not recognize the terms of a lane as a bit reversal.
    """
    disjoint = "|"
    if simd_width == 1:
        texts = _terms(THREAD, images)
    else:
        bits = simd_width.bit_length() - 1
        disjoint = "+"
        lane = _terms(LANE_OF_THREAD, images[:bits], without_bit_reversal)
        texts = [*lane, *_terms(PART_OF_THREAD, images[bits:])]
        if images == tuple(1 << bit for bit in range(len(images))):
            return THREAD
    operator = "^" if overlap(bits for _, bits in texts) else disjoint
    text = f" {operator} ".join(text for text, _ in texts) or "0"
    return bare(text) if len(texts) == 1 else text


def _terms(
    name: str, images: tuple[int, ...], without_bit_reversal: bool = False
) -> list[tuple[str, int]]:
    """Return the terms of a variable under a linear map, and the bits that each can set.

    Without bit reversals, if the lowest bit is exchanged with another one, its term is the result
    of a `max` with 0. Intel's compiler expands that function after LLVM has looked for reversals,
    and then removes it.
    """
    whole = (1 << len(images)) - 1
    parts = terms(images)
    # A reversal mirrors all bits about one position, so that their products are equal; and the
    # lowest bit, 1, is among them.
    mirrors = [part.mask * part.reached for part in parts if is_power_of_two(part.mask)]
    texts = []
    for term in parts:
        text = name if term.mask == whole else f"({name} & {term.mask})"
        if term.shift:
            text = f"({text} {'<<' if term.shift > 0 else '>>'} {abs(term.shift)})"
        if without_bit_reversal and term.mask == 1 and mirrors.count(term.reached) > 1:
            text = f"max({text}, 0u)"
        texts.append((text, term.reached))
    return texts


RULES: dict[OpDef, Rule] = {
    ops.thread.frag_splat: fill,
    ops.thread.frag_shuffle: pick,
    ops.thread.frag_extract: element,
    program.program_id: program_id,
    program.multiprocessor_id: multiprocessor_id,
    program.global_timer: global_timer,
    program.launch_dependents: nothing,
    memory.prefetch: nothing,
    program.num_programs: num_programs,
    ops.thread.thread_id: thread_id,
    ops.thread.frag_gather: frag_gather,
    ops.thread.layout_index: layout_index,
    ops.thread.shuffle_idx: shuffle,
    ops.thread.shuffle_xor: shuffle_xor,
    ops.thread.warp_reduce: warp_reduce,
}
