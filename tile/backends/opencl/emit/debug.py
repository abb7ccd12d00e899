"""What a program says about itself: prints by `printf`, and assertions through a buffer.

A false assertion is reported to the host through a record in global memory, and the work-item goes
on: the launch raises when it is over. Leaving would be undefined where others wait at a barrier.
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.backends.assertions import Assertion
from tile.backends.opencl.emit.arith import Element
from tile.backends.opencl.emit.body import Body, Rule
from tile.backends.opencl.emit.floats import wide
from tile.backends.opencl.emit.registers import THREAD, linear_index_of
from tile.backends.opencl.emit.types import is_integer, is_signed, natural, unsigned
from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import debug
from tile.ir.types import F64, I1, Fragment, Pointer
from tile.simt import ops
from tile.simt.layouts.dims import LANE, WARP
from tile.simt.layouts.layout import LinearLayout


def thread_print(body: Body, op: Operation) -> None:
    """Scalars by the first thread in one line; every element of a tile in a line of its own."""
    prefix = _escaped(op["prefix"])
    scalars = [value for value in op.inputs if not isinstance(value.type, Fragment)]
    tiles = [value for value in op.inputs if isinstance(value.type, Fragment)]
    if scalars or not tiles:
        spelled = [_spelled(body, v.type.element, body.scalar(v), op["hex"]) for v in scalars]
        texts, arguments = [text for text, _ in spelled], [x for _, x in spelled]
        body.line(f"if ({THREAD} == 0) {_print(' '.join([prefix, *texts]), arguments)}")
    for number, (value, layout) in enumerate(zip(tiles, op["layouts"], strict=True)):
        name = prefix if len(op.inputs) == 1 else f"{prefix} [{number}]"
        body.open(f"if ({_first_holder(layout)})")
        _elements(body, op, name, value, layout)
        body.close()


def _escaped(text: str) -> str:
    for old, new in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(old, new)
    return text


def _first_holder(layout: LinearLayout) -> str:
    """Whether this is the first of the threads that hold its elements."""
    images = (*layout.images(LANE), *layout.images(WARP))
    copies = sum(1 << bit for bit, image in enumerate(images) if image == 0)
    return f"({THREAD} & {copies}) == 0" if copies else "true"


def _elements(body: Body, op: Operation, prefix: str, value: Value, layout: LinearLayout) -> None:
    numbers = linear_index_of(body, layout)
    for register, number in zip(body.of(value), numbers, strict=True):
        index: list[str] = []
        below = 0
        for _, count in reversed(layout.outs):
            index.insert(0, f"(int)(({number}) >> {below} & {(1 << count) - 1})")
            below += count
        text, argument = _spelled(body, value.type.element, register, op["hex"])
        place = ", ".join(["%d"] * len(index))
        body.line(_print(f"idx ({place}) {prefix} {text}", [*index, argument]))


def _spelled(body: Body, element: Element, register: str, in_hex: bool) -> tuple[str, str]:
    """How a value is spelled in a format, and as what it is passed."""
    if in_hex or isinstance(element, Pointer):
        digits = max(2, element.bits // 4)
        if element.bits == 64:
            bits = f"as_ulong({register})" if element is F64 else f"(ulong){register}"
            return f"0x%0{digits}lx", bits
        held = body.source.carrier(element)
        bits = register if element is I1 else f"as_{unsigned(element.bits)}(({held}){register})"
        return f"0x%0{digits}x", f"(uint){bits}"
    if not (is_integer(element) or element is I1):
        return "%g", wide(body, element, register)
    if element is I1:
        return "%d", f"(int){register}"
    sign = "d" if is_signed(element) else "u"
    if element.bits == 64:
        return f"%l{sign}", f"({'long' if sign == 'd' else 'ulong'}){register}"
    return f"%{sign}", f"({'int' if sign == 'd' else 'uint'}){natural(element, register)}"


def _print(text: str, arguments: Sequence[str]) -> str:
    programs = [f"(int)get_group_id({axis})" for axis in range(3)]
    return f'printf("pid (%d, %d, %d) {text}\\n", {", ".join([*programs, *arguments])});'


def device_assert(body: Body, op: Operation) -> None:
    """One statement for all registers."""
    conditions = body.of(op.inputs[0])
    masks = ["true"] * len(conditions) if op["mask"] is None else body.of(op["mask"])
    wrong = [
        f"!{condition}" if mask == "true" else f"({mask} && !{condition})"
        for condition, mask in dict.fromkeys(zip(conditions, masks, strict=True))
    ]
    assertions = body.source.assertions
    assertions.append(Assertion(op["message"], op.loc))
    name = body.use("report")
    body.line(f"if ({' || '.join(wrong)}) {name}(faults, {len(assertions)}, (int){THREAD});")


RULES: dict[OpDef, Rule] = {
    ops.thread.thread_print: thread_print,
    debug.device_assert: device_assert,
}
