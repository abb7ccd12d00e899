"""What a program says about itself: prints by the driver's own `vprintf`, and assertions.

A false assertion is reported to the host through a record that the launcher gives (`faults.py`),
and its thread ends. A trap would be simpler, but takes the process's whole CUDA context with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tile.backends.assertions import Assertion
from tile.backends.nvptx.emit.body import Body, Rule
from tile.backends.nvptx.emit.registers import THREAD, linear_index_of, special
from tile.backends.nvptx.emit.types import is_integer, is_signed, llvm_type
from tile.backends.nvptx.emit.words import as_integers
from tile.backends.nvptx.facts import RECORD, REPORTED
from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import debug
from tile.ir.types import F64, I1, Fragment, Pointer, Scalar
from tile.simt import ops
from tile.simt.layouts.dims import LANE, WARP
from tile.simt.layouts.layout import LinearLayout

# -- prints

Argument = tuple[str, str]  # type and value


def thread_print(body: Body, op: Operation) -> None:
    """Scalars by the first thread in one line; every element of a tile in a line of its own."""
    prefix = op["prefix"].replace("%", "%%")
    scalars = [value for value in op.inputs if not isinstance(value.type, Fragment)]
    tiles = [value for value in op.inputs if isinstance(value.type, Fragment)]
    if scalars or not tiles:
        _when(body, body.new(f"icmp eq i32 {THREAD}, 0"), lambda: _line(body, op, prefix, scalars))
    for number, (value, layout) in enumerate(zip(tiles, op["layouts"], strict=True)):
        name = prefix if len(op.inputs) == 1 else f"{prefix} [{number}]"
        first = _first_holder(body, layout)
        _when(body, first, partial(_elements, body, op, name, value, layout))


def _when(body: Body, condition: str, write: Callable[[], None]) -> None:
    """Run what `write` writes where the condition holds."""
    then, done = body.label("then"), body.label("done")
    body.branch(condition, then, done)
    body.start(then)
    with body.inside():
        write()
    body.jump(done)
    body.start(done)


def _first_holder(body: Body, layout: LinearLayout) -> str:
    """Whether this is the first of the threads that hold its elements."""
    images = (*layout.images(LANE), *layout.images(WARP))
    copies = sum(1 << bit for bit, image in enumerate(images) if image == 0)
    if not copies:
        return "true"
    return body.new(f"icmp eq i32 {body.new(f'and i32 {THREAD}, {copies}')}, 0")


def _line(body: Body, op: Operation, prefix: str, values: Sequence[Value]) -> None:
    texts, arguments = [], []
    for value in values:
        text, argument = _spelled(body, value.type.element, body.scalar(value), op["hex"])
        texts.append(text)
        arguments.append(argument)
    _print(body, " ".join([prefix, *texts]), arguments)


def _elements(body: Body, op: Operation, prefix: str, value: Value, layout: LinearLayout) -> None:
    numbers = linear_index_of(body, layout)
    for register, number in zip(body.of(value), numbers, strict=True):
        index: list[Argument] = []
        below = 0
        for _, bits in reversed(layout.outs):
            part = body.new(f"lshr i32 {number}, {below}") if below else number
            part = body.new(f"and i32 {part}, {(1 << bits) - 1}")
            index.insert(0, ("i32", part))
            below += bits
        text, argument = _spelled(body, value.type.element, register, op["hex"])
        place = ", ".join(["%d"] * len(index))
        _print(body, f"idx ({place}) {prefix} {text}", [*index, argument])


def _spelled(
    body: Body, element: Scalar | Pointer, register: str, in_hex: bool
) -> tuple[str, Argument]:
    """How a value is spelled in a format, and as what it is passed."""
    ty = llvm_type(element)
    if in_hex or isinstance(element, Pointer):
        if element.bits == 64:
            bits = register if ty == "i64" else body.new(f"bitcast {ty} {register} to i64")
            return "0x%016llx", ("i64", bits)
        (bits,) = as_integers(body, element, register)
        return f"0x%0{max(2, element.bits // 4)}x", ("i32", bits)
    if not is_integer(element):
        if element is not F64:
            register = body.new(f"fpext {ty} {register} to double")
        return "%g", ("double", register)
    sign = "d" if is_signed(element) or element is I1 else "u"
    if element.bits == 64:
        return f"%ll{sign}", ("i64", register)
    if element.bits < 32:
        extend = "sext" if is_signed(element) else "zext"
        register = body.new(f"{extend} {ty} {register} to i32")
    return f"%{sign}", ("i32", register)


_SIZES = {"i32": 4, "i64": 8, "double": 8}


def _print(body: Body, text: str, values: Sequence[Argument]) -> None:
    """One call of `vprintf`, whose arguments lie in memory, each aligned to its size."""
    programs = [("i32", special(body, f"ctaid.{axis}")) for axis in "xyz"]
    arguments = [*programs, *values]
    places, size = [], 0
    for ty, _ in arguments:
        size = -(-size // _SIZES[ty]) * _SIZES[ty]
        places.append(size)
        size += _SIZES[ty]
    buffer = body.name()
    body.top.append(f"  {buffer} = alloca [{size} x i8], align 8")
    for (ty, value), place in zip(arguments, places, strict=True):
        at = body.new(f"getelementptr i8, ptr {buffer}, i64 {place}")
        body.do(f"store {ty} {value}, ptr {at}, align {_SIZES[ty]}")
    form = body.module.string(f"pid (%d, %d, %d) {text}\n")
    body.call("@vprintf", "i32", ("ptr", form), ("ptr", buffer), pure=False)


# -- assertions

REPORT = "@tile.report"

# Words of the record: the number of the assertion from 1, the program along x, y, z, the thread.
_REPORT = f"""@{RECORD} = addrspace(1) externally_initialized global i64 0, align 8
@{REPORTED} = addrspace(1) externally_initialized global i32 0, align 4
define internal void {REPORT}(i32 %number) noinline {{
  %old = atomicrmw xchg ptr addrspace(1) @{REPORTED}, i32 1 monotonic
  %first = icmp eq i32 %old, 0
  %record = load volatile i64, ptr addrspace(1) @{RECORD}, align 8
  %there = icmp ne i64 %record, 0
  %speak = and i1 %first, %there
  br i1 %speak, label %report, label %done
report:
  %place = inttoptr i64 %record to ptr addrspace(1)
  %x = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %z = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %px = getelementptr i32, ptr addrspace(1) %place, i64 1
  %py = getelementptr i32, ptr addrspace(1) %place, i64 2
  %pz = getelementptr i32, ptr addrspace(1) %place, i64 3
  %pt = getelementptr i32, ptr addrspace(1) %place, i64 4
  store volatile i32 %x, ptr addrspace(1) %px, align 4
  store volatile i32 %y, ptr addrspace(1) %py, align 4
  store volatile i32 %z, ptr addrspace(1) %pz, align 4
  store volatile i32 %thread, ptr addrspace(1) %pt, align 4
  fence seq_cst
  store volatile i32 %number, ptr addrspace(1) %place, align 4
  br label %done
done:
  call void asm sideeffect "exit;", "~{{memory}}"()
  ret void
}}"""


def device_assert(body: Body, op: Operation) -> None:
    """One branch for all registers."""
    conditions = body.of(op.inputs[0])
    masks = ["true"] * len(conditions) if op["mask"] is None else body.of(op["mask"])
    wrong = ""
    for condition, mask in dict.fromkeys(zip(conditions, masks, strict=True)):
        failed = body.new(f"xor i1 {condition}, true")
        if mask != "true":
            failed = body.new(f"and i1 {failed}, {mask}")
        wrong = body.new(f"or i1 {wrong}, {failed}") if wrong else failed
    assertions = body.module.assertions
    assertions.append(Assertion(op["message"], op.loc))
    for axis in "xyz":
        name = f"@llvm.nvvm.read.ptx.sreg.ctaid.{axis}"
        body.module.declare(name, f"declare i32 {name}()")
    body.module.declare(REPORT, _REPORT)
    number = len(assertions)
    _when(body, wrong, lambda: body.do(f"call void {REPORT}(i32 {number})"))


RULES: dict[OpDef, Rule] = {
    ops.thread.thread_print: thread_print,
    debug.device_assert: device_assert,
}
