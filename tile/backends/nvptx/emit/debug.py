"""Prints through the driver's `vprintf`, and assertions.

A false assertion is reported to the host through a record that the launcher passes (`FaultRecord`),
and its thread exits. The driver's `__assertfail` would be simpler, but it destroys the CUDA context
of the whole process. It is called where no launcher has passed a record. A kernel with wgmmas traps
there, without a message: ptxas serializes the wgmmas of a kernel that may call `__assertfail`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from pathlib import Path
from string import Template

from tile.backends.base import Assertion
from tile.backends.nvptx.emit.function_builder import FunctionBuilder, ModuleText
from tile.backends.nvptx.emit.registers import special
from tile.backends.nvptx.emit.vectors import as_integers
from tile.backends.nvptx.launch_metadata import RECORD, REPORTED
from tile.codegen.emitter import copy_bits
from tile.codegen.llvm.function_builder import THREAD, Rule
from tile.codegen.llvm.memory import when
from tile.codegen.llvm.registers import layout_index_of
from tile.codegen.llvm.types import is_integer, llvm_type
from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import debug
from tile.ir.types import F64, I1, Fragment, Pointer, Scalar
from tile.location import Loc
from tile.simt import ops
from tile.simt.layouts.linear_layout import LinearLayout

# -- prints

Argument = tuple[str, str]  # type and value


def thread_print(builder: FunctionBuilder, op: Operation) -> None:
    """Print scalars in one line by the first thread, and every element of a tile in a line."""
    prefix = op["prefix"].replace("%", "%%")
    scalars = [value for value in op.inputs if not isinstance(value.type, Fragment)]
    tiles = [value for value in op.inputs if isinstance(value.type, Fragment)]
    if scalars or not tiles:
        when(
            builder,
            builder.new(f"icmp eq i32 {THREAD}, 0"),
            lambda: _line(builder, op, prefix, scalars),
        )
    shapes = ops.thread.printed_shapes(op)
    for number, (value, layout, shape) in enumerate(zip(tiles, op["layouts"], shapes, strict=True)):
        name = prefix if len(op.inputs) == 1 else f"{prefix} [{number}]"
        first = _first_owner(builder, layout)
        when(builder, first, partial(_elements, builder, op, name, value, layout, shape))


def _first_owner(builder: FunctionBuilder, layout: LinearLayout) -> str:
    """Return an i1: this is the first of the threads that own its elements."""
    copies = copy_bits(layout)
    if not copies:
        return "true"
    return builder.new(f"icmp eq i32 {builder.new(f'and i32 {THREAD}, {copies}')}, 0")


def _line(builder: FunctionBuilder, op: Operation, prefix: str, values: Sequence[Value]) -> None:
    texts, arguments = [], []
    for value in values:
        text, argument = _format(builder, value.type.element, builder.scalar(value), op["hex"])
        texts.append(text)
        arguments.append(argument)
    _print(builder, " ".join([prefix, *texts]), arguments)


def _elements(
    builder: FunctionBuilder,
    op: Operation,
    prefix: str,
    value: Value,
    layout: LinearLayout,
    shape: tuple[int, ...],
) -> None:
    numbers = layout_index_of(builder, layout)
    for register, number in zip(builder.of(value), numbers, strict=True):
        index: list[Argument] = []
        below = 0
        for _, bits in reversed(layout.outs):
            part = builder.new(f"lshr i32 {number}, {below}") if below else number
            part = builder.new(f"and i32 {part}, {(1 << bits) - 1}")
            index.insert(0, ("i32", part))
            below += bits
        text, argument = _format(builder, value.type.element, register, op["hex"])
        indices = ", ".join(["%d"] * len(index))
        line = partial(_print, builder, f"idx ({indices}) {prefix} {text}", [*index, argument])
        inside = [
            builder.new(f"icmp ult i32 {part}, {extent}")
            for (_, part), extent, size in zip(index, shape, layout.shape, strict=True)
            if extent < size
        ]
        if inside:
            when(builder, reduce(lambda x, y: builder.new(f"and i1 {x}, {y}"), inside), line)
        else:
            line()


def _format(
    builder: FunctionBuilder, element: Scalar | Pointer, register: str, in_hex: bool
) -> tuple[str, Argument]:
    """Return the conversion of a value in a format string, and the argument to pass."""
    ty = llvm_type(element)
    if in_hex or isinstance(element, Pointer):
        if element.bits == 64:
            bits = register if ty == "i64" else builder.new(f"bitcast {ty} {register} to i64")
            return "0x%016llx", ("i64", bits)
        (bits,) = as_integers(builder, element, register)
        return f"0x%0{max(2, element.bits // 4)}x", ("i32", bits)
    if not is_integer(element):
        if element is not F64:
            register = builder.new(f"fpext {ty} {register} to double")
        return "%g", ("double", register)
    sign = "d" if element.is_int_signed() or element is I1 else "u"
    if element.bits == 64:
        return f"%ll{sign}", ("i64", register)
    if element.bits < 32:
        extend = "sext" if element.is_int_signed() else "zext"
        register = builder.new(f"{extend} {ty} {register} to i32")
    return f"%{sign}", ("i32", register)


_SIZES = {"i32": 4, "i64": 8, "double": 8}


def _print(builder: FunctionBuilder, text: str, values: Sequence[Argument]) -> None:
    """Emit a call of `vprintf`, whose arguments lie in memory, each aligned to its size."""
    programs = [("i32", special(builder, f"ctaid.{axis}")) for axis in "xyz"]
    arguments = [*programs, *values]
    offsets, size = [], 0
    for ty, _ in arguments:
        size = -(-size // _SIZES[ty]) * _SIZES[ty]
        offsets.append(size)
        size += _SIZES[ty]
    buffer = builder.name()
    builder.entry_lines.append(f"  {buffer} = alloca [{size} x i8], align 8")
    for (ty, value), offset in zip(arguments, offsets, strict=True):
        pointer = builder.new(f"getelementptr i8, ptr {buffer}, i64 {offset}")
        builder.do(f"store {ty} {value}, ptr {pointer}, align {_SIZES[ty]}")
    format_string = builder.module.string(f"pid (%d, %d, %d) {text}\n")
    builder.call("@vprintf", "i32", ("ptr", format_string), ("ptr", buffer), pure=False)


# -- assertions

REPORT = "@tile.report"
ASSERTION = "{i32, i32, ptr, ptr, ptr}"  # number, line, message, file, function
_VOTE = "@llvm.nvvm.vote.any.sync"  # mask of lanes, condition
FAIL = "@__assertfail"  # a function of the driver: message, file, line, function, bytes of a char

# A launcher that does not set the record, as TorchInductor's or a C program's, reads no report:
# there the driver prints the assertion and the launch fails, as by `assert` in CUDA C++.
# The record's i32s: the number of the assertion from 1, the program along x, y and z, the thread.
_TEXT = Path(__file__).with_name("report.ll").read_text(encoding="utf-8").rstrip()
_FAILURE = f"call void {FAIL}(ptr %message, ptr %file, i32 %line, ptr %function, i64 1)"
_TRAP = "call void @llvm.trap()"


def _report(failure: str) -> str:
    """Return the function that reports an assertion. `failure`: what it does without a record."""
    return Template(_TEXT).substitute(
        record=RECORD, reported=REPORTED, report=REPORT, assertion=ASSERTION, failure=failure
    )


def device_assert(builder: FunctionBuilder, op: Operation) -> None:
    """Emit one branch for all registers and lanes."""
    conditions = builder.of(op.inputs[0])
    masks = builder.masks(op, len(conditions))
    any_failed = ""
    for condition, mask in dict.fromkeys(zip(conditions, masks, strict=True)):
        failed = builder.new(f"xor i1 {condition}, true")
        if mask != "true":
            failed = builder.new(f"and i1 {failed}, {mask}")
        any_failed = builder.new(f"or i1 {any_failed}, {failed}") if any_failed else failed
    assertions = builder.module.assertions
    assertions.append(Assertion(op["message"], op.loc))
    for axis in "xyz":
        name = f"@llvm.nvvm.read.ptx.sreg.ctaid.{axis}"
        builder.module.declare(name, f"declare i32 {name}()")
    if any(each.defn is ops.wgmma.wgmma for each in builder.function.walk()):
        builder.module.declare("@llvm.trap", "declare void @llvm.trap()")
        builder.module.declare(REPORT, _report(_TRAP))
    else:
        builder.module.declare(FAIL, f"declare void {FAIL}(ptr, ptr, i32, ptr, i64) noreturn")
        builder.module.declare(REPORT, _report(_FAILURE))
    constant = _constant(builder.module, len(assertions), assertions[-1])
    # ptxas holds nothing for uniform after a call that some threads of a warp make: loops of wgmmas
    # then copy each descriptor from registers of threads. So all of a warp call, if one has failed.
    warp_failed = builder.call(_VOTE, "i1", ("i32", "-1"), ("i1", any_failed), pure=False)
    report = f"call void {REPORT}(ptr addrspace(1) {constant}, i1 {any_failed})"
    when(builder, warp_failed, lambda: builder.do(report))


def _constant(module: ModuleText, number: int, assertion: Assertion) -> str:
    """Return the name of a constant that describes an assertion: one register of the caller."""
    loc = assertion.loc or Loc("<unknown>", 0)
    strings = map(module.string, (assertion.message, loc.file, loc.function))
    fields = [f"i32 {number}", f"i32 {loc.line}", *(f"ptr {string}" for string in strings)]
    return module.constant(
        f"private unnamed_addr addrspace(1) constant {ASSERTION} {{{', '.join(fields)}}}"
    )


RULES: dict[OpDef, Rule] = {
    ops.thread.thread_print: thread_print,
    debug.device_assert: device_assert,
}
