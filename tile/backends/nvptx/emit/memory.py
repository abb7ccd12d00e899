"""Loads and stores of global memory, in vectors, and under a mask without branches."""

from __future__ import annotations

from dataclasses import dataclass

from tile.backends.nvptx.emit import moving
from tile.backends.nvptx.emit.assembler import assemble, braces
from tile.backends.nvptx.emit.body import Body, Registers, Rule
from tile.backends.nvptx.emit.elementwise import each
from tile.backends.nvptx.emit.types import is_literal, memory_type
from tile.backends.nvptx.emit.words import (
    elements,
    from_memory,
    pack,
    to_memory,
    unpack,
    vector,
    word_of,
    word_types,
)
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import memory
from tile.ir.ops.memory import CacheModifier, Eviction
from tile.ir.types import Pointer, Scalar

GLOBAL = "ptr addrspace(1)"
SHARED = "ptr addrspace(3)"

_LOAD_CACHE = {CacheModifier.CA, CacheModifier.CG, CacheModifier.CS, CacheModifier.CV}
_STORE_CACHE = {CacheModifier.WB, CacheModifier.CG, CacheModifier.CS, CacheModifier.WT}


def addptr(body: Body, op: Operation) -> None:
    """The offset is extended by its own sign, then scaled; all in 64 bits."""
    offset, stride = op.inputs[1], op["stride"]
    shift = stride.bit_length() - 1

    def move(pointer: str, by: str) -> str:
        if is_literal(by) and pointer in body.moving:
            return body.new(f"add i64 {pointer}, {moving.step(body, int(by) * stride)}")
        if is_literal(by):
            return body.new(f"add i64 {pointer}, {int(by) * stride}") if by != "0" else pointer
        return body.new(f"add i64 {pointer}, {moving.in_bytes(body, offset, by, shift)}")

    each(body, op, move)


def load(body: Body, op: Operation) -> None:
    """Plain loads are LLVM's own; those with a mask or a hint are lines of PTX."""
    element: Scalar | Pointer = op.result.type.element
    pointers = body.of(op.inputs[0])
    mask = None if op["mask"] is None else body.of(op["mask"])
    other = None if op["other"] is None else body.of(op["other"])
    step = op["vector"]
    hints = _hints(body, op, _LOAD_CACHE)
    results: Registers = []
    for first in range(0, len(pointers), step):
        allowed = "true" if mask is None else mask[first]
        instead = None if other is None else other[first : first + step]
        if allowed == "true" and hints == _PLAIN:
            results += plain_load(body, element, global_pointer(body, pointers[first]), step)
        else:
            results += _hinted_load(body, element, pointers[first], step, hints, allowed, instead)
    body.set(op, results)


@dataclass(frozen=True)
class _Hints:
    """How an access is spelled: what follows `ld` or `st`, and a cache policy, if there is one."""

    kind: str = ".global"
    policy: str = ""


_PLAIN = _Hints()


def _hints(body: Body, op: Operation, known: set[CacheModifier]) -> _Hints:
    """The first cache goes by the modifier or else by the eviction, the second by the eviction."""
    if op.attributes.get("volatile"):
        return _Hints(".volatile.global")
    cache, eviction = op["cache"] in known, op["eviction"]
    if eviction is Eviction.NONE:
        return _Hints(f".global.{op['cache']}") if cache else _PLAIN
    if body.module.arch.capability < 80:
        return _Hints(f".global.L1::{eviction}")
    first = f".{op['cache']}" if cache else f".L1::{eviction}"
    return _Hints(f".global{first}.L2::cache_hint", cache_policy(body, eviction))


def cache_policy(body: Body, eviction: Eviction) -> str:
    """A policy for the second cache, made at the start of the function."""
    name = f"%policy.{eviction}"
    text = f"createpolicy.fractional.L2::{eviction}.b64 $0, 1.0;"
    line = f'  {name} = call i64 asm "{text}", "=l"()'
    if not any(known.startswith(line) for known in body.top):
        body.top.append(line + body.place)
    return name


def global_pointer(body: Body, address: str) -> str:
    """An address as a pointer to global memory."""
    return body.new(f"inttoptr i64 {address} to {GLOBAL}")


def plain_load(
    body: Body, element: Scalar | Pointer, pointer: str, count: int, space: str = GLOBAL
) -> Registers:
    """Neighbours in memory, aligned, by one load."""
    ty = memory_type(element)
    whole = ty if count == 1 else f"<{count} x {ty}>"
    align = element.itemsize * count
    found = body.fresh(f"load {whole}, {space} {pointer}, align {align}")
    return from_memory(body, element, elements(body, ty, found, count))


def plain_store(
    body: Body, element: Scalar | Pointer, pointer: str, values: Registers, space: str = GLOBAL
) -> None:
    """Neighbours in memory, aligned, by one store."""
    whole, value = vector(body, memory_type(element), to_memory(body, element, values))
    align = element.itemsize * len(values)
    body.do(f"store {whole} {value}, {space} {pointer}, align {align}")


def _hinted_load(
    body: Body,
    element: Scalar | Pointer,
    address: str,
    count: int,
    hints: _Hints,
    mask: str,
    other: Registers | None,
) -> Registers:
    bits = word_of(element, count)
    types = word_types(element, count, bits)
    used = [_REGISTER.get(ty, ty) for ty in types]
    number = len(types)
    guarded = mask != "true"
    guard = f"@${number + 1} " if guarded else ""
    operands = [("i64", address)] + ([("i1", mask)] if guarded else [])
    policy = ""
    if hints.policy:
        policy = f", ${number + len(operands)}"
        operands.append(("i64", hints.policy))
    text = f"{guard}ld{hints.kind}{width(types)} {braces(0, number)}, [${number}]{policy};"
    initial: Registers = []
    if guarded and other is not None:
        initial = [in_register(body, word) for word in pack(body, element, other, bits)]
    words = assemble(body, text, used, operands, initial=initial, memory=True)
    words = [from_register(body, ty, word) for ty, word in zip(types, words, strict=True)]
    return unpack(body, element, words, bits)


# The registers of PTX that hold types of LLVM's in operands of instructions.
_REGISTER = {"i8": "i16", "half": "i16", "bfloat": "i16"}


def in_register(body: Body, word: tuple[str, str]) -> str:
    """A word as an operand of PTX, which has no registers of 8 bits."""
    ty, value = word
    if ty == "i8":
        return body.new(f"zext i8 {value} to i16")
    return body.new(f"bitcast {ty} {value} to i16") if ty in _REGISTER else value


def from_register(body: Body, ty: str, value: str) -> str:
    """What `in_register` made an operand of."""
    if ty == "i8":
        return body.new(f"trunc i16 {value} to i8")
    return body.new(f"bitcast i16 {value} to {ty}") if ty in _REGISTER else value


_BITS = {"i8": 8, "i16": 16, "half": 16, "bfloat": 16, "i64": 64, "double": 64}


def width(types: list[str]) -> str:
    """How many of how many bits an instruction moves, such as `.v4.b32`."""
    many = f".v{len(types)}" if len(types) > 1 else ""
    return f"{many}.b{_BITS.get(types[0], 32)}"


def store(body: Body, op: Operation) -> None:
    """As loads are."""
    element: Scalar | Pointer = op.inputs[1].type.element
    pointers, values = body.of(op.inputs[0]), body.of(op.inputs[1])
    mask = None if op["mask"] is None else body.of(op["mask"])
    step = op["vector"]
    hints = _hints(body, op, _STORE_CACHE)
    for first in range(0, len(pointers), step):
        allowed = "true" if mask is None else mask[first]
        stored = values[first : first + step]
        if allowed == "true" and hints == _PLAIN:
            plain_store(body, element, global_pointer(body, pointers[first]), stored)
        else:
            kind, policy = f"st{hints.kind}", hints.policy
            guarded_store(body, element, kind, ("i64", pointers[first]), stored, allowed, policy)


def guarded_store(
    body: Body,
    element: Scalar | Pointer,
    kind: str,
    address: tuple[str, str],
    values: Registers,
    mask: str,
    policy: str = "",
) -> None:
    """A store by a line of PTX, where the mask is true; `kind` is such as `st.global`."""
    bits = word_of(element, len(values))
    words = pack(body, element, values, bits)
    types = [ty for ty, _ in words]
    operands = [(_REGISTER.get(ty, ty), in_register(body, (ty, word))) for ty, word in words]
    guard = ""
    if mask != "true":
        guard = f"@${len(words) + 1} "
    given = [address, *operands] + ([("i1", mask)] if guard else [])
    last = ""
    if policy:
        last = f", ${len(given)}"
        given.append(("i64", policy))
    text = f"{guard}{kind}{width(types)} [$0], {braces(1, len(words))}{last};"
    assemble(body, text, [], given, memory=True)


def barrier(body: Body, op: Operation) -> None:
    """All threads of the program; a warp alone needs less."""
    if body.module.threads == 32:
        body.call("@llvm.nvvm.bar.warp.sync", "void", ("i32", "-1"))
    else:
        body.call("@llvm.nvvm.barrier.cta.sync.aligned.all", "void", ("i32", "0"))


RULES: dict[OpDef, Rule] = {
    memory.addptr: addptr,
    memory.load: load,
    memory.store: store,
    memory.barrier: barrier,
}
