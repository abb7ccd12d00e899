"""Emit accesses to global memory: loads and stores in vectors, and atomics.

Loads and stores have predicates instead of branches. Atomics are inline PTX: LLVM's own lose order
and scope. Where nobody uses the old value, `red` takes the place of `atom`.

Invariant loads are `ld.global.nc`, which the PTX ISA allows for memory that is read-only while the
kernel runs: ptxas may move them above stores and barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import assemble, braces
from tile.backends.nvptx.emit.narrow_floats import narrow, wide
from tile.backends.nvptx.emit.vectors import (
    elements,
    pack,
    packed_bits,
    packed_types,
    unpack,
    vector,
)
from tile.codegen.llvm import memory as llvm
from tile.codegen.llvm.function_builder import Registers, Rule
from tile.codegen.llvm.memory import from_memory, to_memory
from tile.codegen.llvm.types import llvm_type, memory_type, number_of
from tile.ir.core import OpDef, Operation
from tile.ir.ops import memory
from tile.ir.ops.memory import CacheModifier, Eviction, Order, RMWKind, Scope
from tile.ir.types import BF16, F16, F32, F64, Pointer, Scalar

GLOBAL = "ptr addrspace(1)"
SHARED = "ptr addrspace(3)"

_LOAD_CACHE = {CacheModifier.CA, CacheModifier.CG, CacheModifier.CS, CacheModifier.CV}
_STORE_CACHE = {CacheModifier.WB, CacheModifier.CG, CacheModifier.CS, CacheModifier.WT}


def load(builder: FunctionBuilder, op: Operation) -> None:
    """Emit plain loads as LLVM's own; those with a mask or a hint are inline PTX."""
    element: Scalar | Pointer = op.result.type.element
    pointers, width = builder.of(op.inputs[0]), op["vector"]
    masks = builder.masks(op, len(pointers))
    other = None if op["other"] is None else builder.of(op["other"])
    hints = _hints(builder, op, _LOAD_CACHE)
    results: Registers = []
    for first in range(0, len(pointers), width):
        mask, pointer = masks[first], pointers[first]
        fallback = None if other is None else other[first : first + width]
        if mask == "true" and hints in _PLAIN:
            address = global_pointer(builder, pointer)
            invariant = op["invariant"]
            results += plain_load(builder, element, address, width, invariant=invariant)
        else:
            results += _ptx_load(builder, element, pointer, width, hints, mask, fallback)
    builder.set(op, results)


@dataclass(frozen=True)
class _Hints:
    """The spelling of an access: what follows `ld` or `st`, and a cache policy, if there is one."""

    kind: str = ".global"
    policy: str = ""


_PLAIN = (_Hints(), _Hints(".global.nc"))  # the accesses that LLVM has itself


def _hints(builder: FunctionBuilder, op: Operation, supported: set[CacheModifier]) -> _Hints:
    """Return the hints of an access.

    L1 follows the cache modifier, or else the eviction priority; L2 follows the eviction priority.
    """
    if op.attributes.get("volatile"):
        return _Hints(".volatile.global")
    nc = ".nc" if op.attributes.get("invariant") else ""
    modifier = f".{op['cache']}" if op["cache"] in supported else ""
    eviction = op["eviction"]
    if eviction is Eviction.NONE:
        return _Hints(f".global{modifier}{nc}")
    if builder.module.arch.capability < 80:
        return _Hints(f".global{nc}.L1::{eviction}")
    l1 = f"{modifier}{nc}" if modifier else f"{nc}.L1::{eviction}"
    return _Hints(f".global{l1}.L2::cache_hint", cache_policy(builder, eviction))


def cache_policy(builder: FunctionBuilder, eviction: Eviction) -> str:
    """Return an L2 cache policy, which is created at the start of the function."""
    name = f"%policy.{eviction}"
    text = f"createpolicy.fractional.L2::{eviction}.b64 $0, 1.0;"
    line = f'  {name} = call i64 asm "{text}", "=l"()'
    if not any(other.startswith(line) for other in builder.entry_lines):
        builder.entry_lines.append(line + builder.debug_suffix)
    return name


def global_pointer(builder: FunctionBuilder, address: str) -> str:
    """Return an address as a pointer to global memory."""
    return builder.new(f"inttoptr i64 {address} to {GLOBAL}")


def plain_load(
    builder: FunctionBuilder,
    element: Scalar | Pointer,
    pointer: str,
    count: int,
    space: str = GLOBAL,
    *,
    invariant: bool = False,
) -> Registers:
    """Load contiguous elements, aligned to their total size, by one instruction."""
    ty = memory_type(element)
    loaded_type = ty if count == 1 else f"<{count} x {ty}>"
    align = element.bytes_of(count)
    suffix = f", !invariant.load !{builder.module.empty_node()}" if invariant else ""
    value = builder.new_unique(f"load {loaded_type}, {space} {pointer}, align {align}{suffix}")
    return from_memory(builder, element, elements(builder, ty, value, count))


def plain_store(
    builder: FunctionBuilder,
    element: Scalar | Pointer,
    pointer: str,
    values: Registers,
    space: str = GLOBAL,
) -> None:
    """Store contiguous elements, aligned to their total size, by one instruction."""
    stored_type, value = vector(builder, memory_type(element), to_memory(builder, element, values))
    align = element.bytes_of(len(values))
    builder.do(f"store {stored_type} {value}, {space} {pointer}, align {align}")


def _ptx_load(
    builder: FunctionBuilder,
    element: Scalar | Pointer,
    address: str,
    count: int,
    hints: _Hints,
    mask: str,
    other: Registers | None,
) -> Registers:
    """Load contiguous elements by inline PTX; where the mask is false they are `other` or zero."""
    bits = packed_bits(element, count)
    types = packed_types(element, count, bits)
    register_types = [_REGISTER.get(ty, ty) for ty in types]
    number = len(types)
    operands = [("i64", address)] + ([("i64", hints.policy)] if hints.policy else [])
    policy = f", ${number + 1}" if hints.policy else ""
    text = f"ld{hints.kind}{ptx_width(types)} {braces(0, number)}, [${number}]{policy};"
    initial: Registers = []
    if mask != "true" and other is not None:
        initial = [in_register(builder, typed) for typed in pack(builder, element, other, bits)]
    packed = assemble(
        builder, text, register_types, operands, initial=initial, guard=mask, memory=True
    )
    packed = [
        from_register(builder, ty, register) for ty, register in zip(types, packed, strict=True)
    ]
    return unpack(builder, element, packed, bits)


# PTX registers, as LLVM types, that hold values of narrower types as operands of instructions.
_REGISTER = {"i8": "i16", "half": "i16", "bfloat": "i16"}


def in_register(builder: FunctionBuilder, typed: tuple[str, str]) -> str:
    """Return a value as an operand of PTX, which has no registers of 8 bits."""
    ty, value = typed
    if ty == "i8":
        return builder.new(f"zext i8 {value} to i16")
    return builder.new(f"bitcast {ty} {value} to i16") if ty in _REGISTER else value


def from_register(builder: FunctionBuilder, ty: str, value: str) -> str:
    """Reverse `in_register`."""
    if ty == "i8":
        return builder.new(f"trunc i16 {value} to i8")
    return builder.new(f"bitcast i16 {value} to {ty}") if ty in _REGISTER else value


_BITS = {"i8": 8, "i16": 16, "half": 16, "bfloat": 16, "i64": 64, "double": 64}


def ptx_width(types: list[str]) -> str:
    """Return the suffix for vectors of these registers, such as `.v4.b32`."""
    count = f".v{len(types)}" if len(types) > 1 else ""
    return f"{count}.b{_BITS.get(types[0], 32)}"


def store(builder: FunctionBuilder, op: Operation) -> None:
    """Emit plain stores as LLVM's own; those with a mask or a hint are inline PTX."""
    element: Scalar | Pointer = op.inputs[1].type.element
    pointers, values = builder.of(op.inputs[0]), builder.of(op.inputs[1])
    masks, width = builder.masks(op, len(pointers)), op["vector"]
    hints = _hints(builder, op, _STORE_CACHE)
    for first in range(0, len(pointers), width):
        mask = masks[first]
        stored, pointer = values[first : first + width], pointers[first]
        if mask == "true" and hints in _PLAIN:
            plain_store(builder, element, global_pointer(builder, pointer), stored)
        else:
            kind, policy = f"st{hints.kind}", hints.policy
            guarded_store(builder, element, kind, ("i64", pointer), stored, mask, policy)


def guarded_store(
    builder: FunctionBuilder,
    element: Scalar | Pointer,
    kind: str,
    address: tuple[str, str],
    values: Registers,
    mask: str,
    policy: str = "",
) -> None:
    """Store by inline PTX where the mask is true; `kind` is such as `st.global`."""
    bits = packed_bits(element, len(values))
    packed = pack(builder, element, values, bits)
    types = [ty for ty, _ in packed]
    operands = [
        address,
        *[(_REGISTER.get(ty, ty), in_register(builder, (ty, register))) for ty, register in packed],
    ]
    hint = f", ${len(operands)}" if policy else ""
    operands += [("i64", policy)] if policy else []
    text = f"{kind}{ptx_width(types)} [$0], {braces(1, len(packed))}{hint};"
    assemble(builder, text, [], operands, guard=mask, memory=True)


def barrier(builder: FunctionBuilder, op: Operation) -> None:
    """Wait for all threads of the program; a program of one warp needs less."""
    if builder.module.threads == 32:
        builder.call("@llvm.nvvm.bar.warp.sync", "void", ("i32", "-1"))
    else:
        builder.call("@llvm.nvvm.barrier.cta.sync.aligned.all", "void", ("i32", "0"))


Combine = Callable[[str], str]

_ATOMIC_REGISTER = {"half": "i16", "bfloat": "i16"}
_FLOAT_SUM = {F16: "noftz.f16", BF16: "noftz.bf16", F32: "f32", F64: "f64"}
_BITWISE = {RMWKind.AND: "and", RMWKind.OR: "or", RMWKind.XOR: "xor", RMWKind.XCHG: "exch"}


@dataclass(frozen=True)
class _Instruction:
    """The form in which the instructions of an atomic operation are emitted."""

    kind: str  # `atom`, or `red`, which has no result
    order: Order
    scope: Scope

    def name(self, suffix: str) -> str:
        return f"{self.kind}.{self.order}.{self.scope}.global.{suffix}"


@contextmanager
def _ordered(
    builder: FunctionBuilder, op: Operation, count: int, width: int = 1
) -> Iterator[_Instruction]:
    """Order the accesses around an operation of `count` instructions on vectors of `width`.

    A single instruction carries the order itself. Several are put between fences, since each of
    them would otherwise wait for all earlier accesses. `red` cannot acquire, and only `red` takes
    vectors.
    """
    order, scope = op["order"], op["scope"]
    kind = "atom" if op.result.uses or order.acquires else "red"
    carries_order = count == 1 and (kind == "red" or width == 1)
    if carries_order or order is Order.RELAXED:
        yield _Instruction(kind, order, scope)
        return
    fence = f"fence.acq_rel.{scope};"
    if order.releases:
        assemble(builder, fence, [], [], memory=True)
    yield _Instruction("atom" if op.result.uses else "red", Order.RELAXED, scope)
    if order.acquires:
        assemble(builder, fence, [], [], memory=True)


def atomic_rmw(builder: FunctionBuilder, op: Operation) -> None:
    """Emit one instruction where there is one, else a loop around compare-and-swap."""
    element = number_of(op.result.type)
    pointers, values = builder.of(op.inputs[0]), builder.of(op.inputs[1])
    masks = builder.masks(op, len(pointers))
    suffix = _suffix(builder, op["kind"], element)
    width = 1 if op.result.uses else op["vector"]
    results: Registers = []
    with _ordered(builder, op, len(pointers) // width, width) as form:
        for first in range(0, len(pointers), width):
            pointer, mask = pointers[first], masks[first]
            operands = values[first : first + width]
            if suffix is None:
                results.append(_by_swapping(builder, op, form, pointer, operands[0], mask))
            elif width > 1:
                _vector(builder, form, suffix, element, pointer, operands, mask)
            else:
                results.append(_scalar(builder, op, form, suffix, pointer, operands, mask))
    if op.result.uses:
        builder.set(op, results)


def atomic_cas(builder: FunctionBuilder, op: Operation) -> None:
    """Compare the bits, and swap."""
    element = op.result.type.element
    pointers, expected, values = (builder.of(value) for value in op.inputs[:3])
    masks = builder.masks(op, len(pointers))
    suffix = f"cas.b{element.bits}"
    operands = zip(pointers, expected, values, masks, strict=True)
    with _ordered(builder, op, len(pointers)) as form:
        form = replace(form, kind="atom")
        results = [
            _scalar(builder, op, form, suffix, p, [old, new], m) for p, old, new, m in operands
        ]
    builder.set(op, results)


def _suffix(builder: FunctionBuilder, kind: RMWKind, element: Scalar) -> str | None:
    """Return the end of the instruction's name; None where there is no such instruction."""
    if kind in _BITWISE:
        return f"{_BITWISE[kind]}.b{element.bits}"
    if kind is RMWKind.ADD and element.is_floating():
        if element is BF16 and builder.module.arch.capability < 90:
            return None
        return f"add.{_FLOAT_SUM[element]}"
    if element.is_floating():
        return None
    if kind is RMWKind.ADD:
        return f"add.u{element.bits}"
    return f"{kind}.{'s' if element.is_int_signed() else 'u'}{element.bits}"


def _vector(
    builder: FunctionBuilder,
    form: _Instruction,
    suffix: str,
    element: Scalar,
    pointer: str,
    values: Registers,
    mask: str,
) -> None:
    """Emit one `red` for contiguous elements: pairs of 16 bits, and up to four 32-bit registers."""
    assert form.kind == "red"
    packed = pack(builder, element, values)
    *prefix, ty = suffix.split(".")
    pairs = "x2" if element.bits == 16 else ""
    width = [f"v{len(packed)}"] if len(packed) > 1 else []
    name = ".".join([*prefix, *width, ty + pairs])
    text = f"{form.name(name)} [$0], {braces(1, len(packed))};"
    assemble(builder, text, [], [("i64", pointer), *packed], guard=mask, memory=True)


def _scalar(
    builder: FunctionBuilder,
    op: Operation,
    form: _Instruction,
    suffix: str,
    pointer: str,
    values: Registers,
    mask: str,
) -> str:
    ty = llvm_type(op.result.type.element)
    if suffix.rpartition(".")[2][0] == "b" and ty in _INTEGER_OF:  # the bits of a float
        as_bits = _INTEGER_OF[ty]
        values = [builder.new(f"bitcast {ty} {value} to {as_bits}") for value in values]
        old = _emit(builder, form, suffix, pointer, as_bits, values, mask)
        return builder.new(f"bitcast {as_bits} {old} to {ty}") if old else ""
    register_type = _ATOMIC_REGISTER.get(ty, ty)
    values = [in_register(builder, (ty, value)) for value in values]
    old = _emit(builder, form, suffix, pointer, register_type, values, mask)
    return from_register(builder, ty, old) if old else ""


_INTEGER_OF = {"float": "i32", "double": "i64"}


def _emit(
    builder: FunctionBuilder,
    form: _Instruction,
    suffix: str,
    pointer: str,
    ty: str,
    values: Registers,
    mask: str,
) -> str:
    """Emit one instruction, and return the old value; an empty name for a `red`."""
    if form.kind == "red" and suffix.startswith("exch"):  # no `red` exchanges
        form = replace(form, kind="atom")
    results = [ty] if form.kind == "atom" else []
    at = len(results)
    sources = ", ".join([f"${number}" for number in range(at + 1, at + 1 + len(values))])
    destination = "$0, " if results else ""
    text = f"{form.name(suffix)} {destination}[${at}], {sources};"
    operands = [("i64", pointer), *[(ty, value) for value in values]]
    registers = assemble(builder, text, results, operands, guard=mask, memory=True)
    return registers[0] if registers else ""


# -- by compare-and-swap


def _by_swapping(
    builder: FunctionBuilder, op: Operation, form: _Instruction, pointer: str, value: str, mask: str
) -> str:
    """Load, combine and compare-and-swap until no other thread wrote in between.

      br mask, first, done
    first:
      start = load
    again:
      expected = phi start, old
      old = cas expected, combine(expected)
      br old == expected, done, again
    done:
      result = phi 0, old
    """
    element = op.result.type.element
    ty = llvm_type(element)
    bits = f"i{element.bits}"
    before = builder.block
    first, again, done = (builder.label(name) for name in ("first", "again", "done"))
    builder.branch(mask, first, done)
    builder.start_block(first)
    with builder.dominance_scope():
        address = global_pointer(builder, pointer)
        start = builder.new_unique(
            f"load atomic {bits}, ptr addrspace(1) {address} monotonic, align {element.itemsize}"
        )
        builder.jump(again)
        builder.start_block(again)
        old = builder.name()
        expected = builder.phi(bits, [(start, first), (old, again)])
        number = builder.new(f"bitcast {bits} {expected} to {ty}")
        combined = _combined(builder, op["kind"], element, number, value)
        new = builder.new(f"bitcast {ty} {combined} to {bits}")
        suffix = f"cas.b{element.bits}"
        swap = replace(form, kind="atom")
        swapped = _emit(builder, swap, suffix, pointer, bits, [expected, new], "true")
        builder.do(f"{old} = bitcast {bits} {swapped} to {bits}")
        builder.branch(builder.new(f"icmp eq {bits} {old}, {expected}"), done, again)
    builder.start_block(done)
    result = builder.phi(bits, [("0", before), (old, again)])
    return builder.new(f"bitcast {bits} {result} to {ty}")


def _combined(
    builder: FunctionBuilder, kind: RMWKind, element: Scalar | Pointer, x: str, y: str
) -> str:
    if kind is RMWKind.ADD:
        total = builder.new(f"fadd float {wide(builder, element, x)}, {wide(builder, element, y)}")
        return narrow(builder, element, total)
    assert isinstance(element, Scalar)
    ty = llvm_type(element)
    return builder.call(f"@llvm.{kind}num.{element.ir_name}", ty, (ty, x), (ty, y))


RULES: dict[OpDef, Rule] = {
    **llvm.RULES,
    memory.load: load,
    memory.store: store,
    memory.barrier: barrier,
    memory.atomic_rmw: atomic_rmw,
    memory.atomic_cas: atomic_cas,
}
