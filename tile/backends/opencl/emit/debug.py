"""Emit prints as `printf`, and assertions as writes to a record in global memory.

A work-item whose assertion fails writes the record and continues; the host raises when the launch
is over. Returning early would be undefined behavior if other work-items wait at a barrier.
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.backends.base import Assertion
from tile.backends.opencl.emit.arith import Element, wide
from tile.backends.opencl.emit.function_builder import FunctionBuilder, Rule
from tile.backends.opencl.emit.registers import THREAD, linear_index_of
from tile.backends.opencl.emit.types import is_integer, natural, unsigned
from tile.codegen.emitter import copy_bits
from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import debug
from tile.ir.types import F64, I1, Fragment, Pointer
from tile.simt import ops
from tile.simt.layouts.linear_layout import LinearLayout


def thread_print(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a print: one line for all scalars, by the first thread; one line per tile element."""
    prefix = _escaped(op["prefix"])
    scalars = [value for value in op.inputs if not isinstance(value.type, Fragment)]
    tiles = [value for value in op.inputs if isinstance(value.type, Fragment)]
    if scalars or not tiles:
        formats = [_format(builder, v.type.element, builder.scalar(v), op["hex"]) for v in scalars]
        texts, arguments = [text for text, _ in formats], [x for _, x in formats]
        builder.line(f"if ({THREAD} == 0) {_print(' '.join([prefix, *texts]), arguments)}")
    shapes = ops.thread.printed_shapes(op)
    for number, (value, layout, shape) in enumerate(zip(tiles, op["layouts"], shapes, strict=True)):
        name = prefix if len(op.inputs) == 1 else f"{prefix} [{number}]"
        builder.open(f"if ({_is_first_copy(layout)})")
        _elements(builder, op, name, value, layout, shape)
        builder.close()


def _escaped(text: str) -> str:
    for old, new in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(old, new)
    return text


def _is_first_copy(layout: LinearLayout) -> str:
    """Return the condition that this is the first of the threads with the same elements."""
    copies = copy_bits(layout)
    return f"({THREAD} & {copies}) == 0" if copies else "true"


def _elements(
    builder: FunctionBuilder,
    op: Operation,
    prefix: str,
    value: Value,
    layout: LinearLayout,
    shape: tuple[int, ...],
) -> None:
    numbers = linear_index_of(builder, layout)
    for register, number in zip(builder.of(value), numbers, strict=True):
        index: list[str] = []
        shift = 0
        for _, count in reversed(layout.outs):
            index.insert(0, f"(int)(({number}) >> {shift} & {(1 << count) - 1})")
            shift += count
        text, argument = _format(builder, value.type.element, register, op["hex"])
        formats = ", ".join(["%d"] * len(index))
        line = _print(f"idx ({formats}) {prefix} {text}", [*index, argument])
        inside = [
            f"{part} < {extent}"
            for part, extent, size in zip(index, shape, layout.shape, strict=True)
            if extent < size
        ]
        builder.line(f"if ({' && '.join(inside)}) {line}" if inside else line)


def _format(
    builder: FunctionBuilder, element: Element, register: str, in_hex: bool
) -> tuple[str, str]:
    """Return the conversion specification of a value and the argument to pass for it."""
    if in_hex or isinstance(element, Pointer):
        digits = max(2, element.bits // 4)
        if element.bits == 64:
            bits = f"as_ulong({register})" if element is F64 else f"(ulong){register}"
            return f"0x%0{digits}lx", bits
        ty = builder.source.carrier(element)
        bits = register if element is I1 else f"as_{unsigned(element.bits)}(({ty}){register})"
        return f"0x%0{digits}x", f"(uint){bits}"
    if not (is_integer(element) or element is I1):
        return "%g", wide(builder, element, register)
    if element is I1:
        return "%d", f"(int){register}"
    sign = "d" if element.is_int_signed() else "u"
    if element.bits == 64:
        return f"%l{sign}", f"({'long' if sign == 'd' else 'ulong'}){register}"
    return f"%{sign}", f"({'int' if sign == 'd' else 'uint'}){natural(element, register)}"


def _print(text: str, arguments: Sequence[str]) -> str:
    programs = [f"(int)get_group_id({axis})" for axis in range(3)]
    return f'printf("pid (%d, %d, %d) {text}\\n", {", ".join([*programs, *arguments])});'


def device_assert(builder: FunctionBuilder, op: Operation) -> None:
    """Emit an assertion, in one statement for all registers."""
    conditions = builder.of(op.inputs[0])
    masks = builder.masks(op, len(conditions))
    failures = [
        f"!{condition}" if mask == "true" else f"({mask} && !{condition})"
        for condition, mask in dict.fromkeys(zip(conditions, masks, strict=True))
    ]
    assertions = builder.source.assertions
    assertions.append(Assertion(op["message"], op.loc))
    name = builder.use("report")
    number = len(assertions)
    builder.line(f"if ({' || '.join(failures)}) {name}(faults, {number}, (int){THREAD});")


RULES: dict[OpDef, Rule] = {
    ops.thread.thread_print: thread_print,
    debug.device_assert: device_assert,
}
