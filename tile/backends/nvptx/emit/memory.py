"""Emit accesses to global memory, in vectors, with predicates instead of branches; tables.

Invariant loads are `ld.global.nc`, which the PTX ISA allows for memory that is read-only while the
kernel runs: ptxas may move them above stores and barriers.
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import assemble, braces
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
from tile.codegen.llvm.types import memory_type
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import indexing, memory
from tile.ir.ops.memory import CacheModifier, Eviction
from tile.ir.types import Pointer, Scalar

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
    """Wait for all threads of the program; a program of one warp needs less.

    The program of a kernel with a producer partition has barrier 1 for itself.
    """
    module = builder.module
    if module.threads == 32:
        builder.call("@llvm.nvvm.bar.warp.sync", "void", ("i32", "-1"))
    elif module.producer_threads and builder.in_program:
        name = "@llvm.nvvm.barrier.cta.sync.aligned.count"
        builder.call(name, "void", ("i32", "1"), ("i32", str(module.threads)))
    else:
        builder.call("@llvm.nvvm.barrier.cta.sync.aligned.all", "void", ("i32", "0"))


# -- constant tables

GLOBAL_SPACE, CONSTANT_SPACE = 1, 4
# Larger tables would evict a kernel's parameters from the first level of the constant cache, 2 KiB.
CONSTANT_BYTES = 1024


def table(builder: FunctionBuilder, op: Operation) -> None:
    """Load entries from constant memory for a scalar, and from global memory for a fragment.

    Constant memory serves one address of a warp at a time, so it has the tables that scalars index,
    up to the size of its cache; the lanes of a tile index tables in global memory, through L1.
    """
    size = op["of"].itemsize * len(op["entries"])
    is_scalar = isinstance(op.result.type, Scalar) and size <= CONSTANT_BYTES
    llvm.table(builder, op, CONSTANT_SPACE if is_scalar else GLOBAL_SPACE)


RULES: dict[OpDef, Rule] = {
    **llvm.RULES,
    memory.load: load,
    memory.store: store,
    memory.barrier: barrier,
    indexing.table: table,
}
