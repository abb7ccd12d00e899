"""Execute the statements of inline PTX on expressions: the rules of `RULES`, `mov` and `cvt`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from tile.errors import CompilationError
from tile.ir.expressions import Expression, fields, joined, unsigned
from tile.ir.ops import memory
from tile.ir.types import F16, I1, U32, Scalar
from tile.transforms.expand_inline_asm import comparisons, floats, integers, lookup, video
from tile.transforms.expand_inline_asm.branches import Branches
from tile.transforms.expand_inline_asm.conversions import MINIFLOATS, MODIFIERS, convert, limited
from tile.transforms.expand_inline_asm.lookup import lop3
from tile.transforms.expand_inline_asm.memory import ONCE_A_THREAD, load, reduce, store
from tile.transforms.expand_inline_asm.registers import RegisterFile
from tile.transforms.expand_inline_asm.rules import (
    Opcode,
    PtxType,
    Rule,
    RuleTable,
    element_named,
    split_opcode,
    table,
)
from tile.transforms.expand_inline_asm.syntax import (
    Address,
    Declaration,
    Group,
    Immediate,
    Instruction,
    Label,
    Operand,
    Scope,
    Statement,
)

_OTHER_THREADS = (
    "it takes registers of other threads, and which elements those hold depends on the layout; use "
    "`tl.gather`, `tl.reduce` or `tl.associative_scan`"
)
# Instructions that have no meaning for an element, and why.
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("atom", "multimem"), ONCE_A_THREAD),
    **dict.fromkeys(
        ("shfl", "vote", "match", "redux", "activemask", "elect", "movmatrix"), _OTHER_THREADS
    ),
    **dict.fromkeys(
        ("ret", "exit", "trap", "brkpt", "call", "brx"),
        "it ends or leaves the text for a whole thread, which holds several elements",
    ),
}

RULES: RuleTable = table(
    chain(integers.RULES, lookup.RULES, floats.RULES, comparisons.RULES, video.RULES)
)


def execute(registers: RegisterFile, statements: Sequence[Statement]) -> None:
    """Execute statements in order. Raises `CompilationError` for one that has no rule."""
    branches = Branches()
    for statement in statements:
        if isinstance(statement, Declaration):
            registers.declare(statement.type, statement.names)
        elif isinstance(statement, Label):
            branches.label(registers, statement.name)
        elif isinstance(statement, Instruction):
            _execute_one(registers, statement, branches)
        elif statement is Scope.BEGIN:
            registers.scopes.append({})
            branches.begin_scope()
        elif len(registers.scopes) == 1:
            raise CompilationError("the asm has a `}` without `{`")
        else:
            registers.scopes.pop()
            branches.end_scope()
    branches.finish()
    if len(registers.scopes) > 1:
        raise CompilationError("the asm has a `{` without `}`")


def _execute_one(registers: RegisterFile, instruction: Instruction, branches: Branches) -> None:
    opcode = split_opcode(instruction.opcode)
    if opcode.base in REFUSED:
        raise instruction.unsupported(f": {REFUSED[opcode.base]}")
    addresses = any(isinstance(operand, Address) for operand in instruction.operands)
    if addresses and opcode.base not in ("ld", "st", "red"):
        raise instruction.unsupported()
    registers.begin(instruction)
    if opcode.base == "bra":
        branches.branch(registers)
    else:
        CUSTOM.get(opcode.base, _by_rule)(registers, opcode)


def _by_rule(registers: RegisterFile, opcode: Opcode) -> None:
    """Execute an instruction by its rule in the table."""
    rule = _rule(opcode, registers.user)
    to, *sources = registers.user.take(1 + len(rule.sources))
    element = replace(opcode, names=tuple(name.removesuffix("x2") for name in opcode.names))
    lanes = opcode.types[0].lanes
    columns = [
        _read(registers, source, element_named(name, element), lanes)
        for name, source in zip(rule.sources, sources, strict=True)
    ]
    results = [rule.compute(element, *operands) for operands in zip(*columns, strict=True)]
    if isinstance(to, Group) and not to.braces:  # two predicates: a comparison and its complement
        pair = (results[0], _complement(registers, opcode))
        for name, value in zip(to.members, pair, strict=True):
            registers.write(name, value)
        return
    registers.write(to, results[0] if lanes == 1 else joined(results))


def _rule(opcode: Opcode, instruction: Instruction) -> Rule:
    candidates = RULES.get((opcode.base, opcode.names[0]), ()) if opcode.names else ()
    for rule in candidates:
        if rule.takes(opcode):
            return rule
    raise instruction.unsupported()


def _read(
    registers: RegisterFile, operand: Operand, element: Scalar, lanes: int
) -> list[Expression]:
    """Return the elements that an operand has in its register."""
    if lanes == 1:
        return [registers.read(operand, element)]
    return fields(registers.read(operand, unsigned(element.bits * lanes)), element, lanes)


def _complement(registers: RegisterFile, opcode: Opcode) -> Expression:
    """Return the second result of `setp`: its comparison negated before it is combined."""
    plain = replace(
        opcode, modifiers=tuple(m for m in opcode.modifiers if m not in comparisons.COMBINATIONS)
    )
    x, y, *other = registers.user.operands[1:]
    element = opcode.types[0].element
    holds = ~comparisons.compare(plain, registers.read(x, element), registers.read(y, element))
    if not other:
        return holds
    return comparisons.combined(opcode, holds, registers.read(other[0], I1))


def _mov(registers: RegisterFile, opcode: Opcode) -> None:
    """Copy a register, or join or split one as a vector."""
    user = registers.user
    if len(opcode.names) != 1 or opcode.modifiers:
        raise user.unsupported()
    to, source = user.take(2)
    whole = opcode.types[0].element
    if isinstance(source, Group):
        part = _part(whole, source, user)
        value = joined([registers.read(x, part) for x in source.members])
    else:
        value = registers.read(source, whole)
    if not isinstance(to, Group):
        registers.write(to, value)
        return
    parts = fields(value.unsigned(), _part(whole, to, user), len(to.members))
    for name, field in zip(to.members, parts, strict=True):
        registers.write(name, field)


def _cvta(registers: RegisterFile, opcode: Opcode) -> None:
    """Copy an address: those of global memory are generic ones."""
    if opcode.modifiers not in (("global",), ("to", "global")):
        raise registers.user.unsupported()
    _mov(registers, replace(opcode, modifiers=()))


def _part(whole: Scalar, group: Group, instruction: Instruction) -> Scalar:
    bits, remainder = divmod(whole.bits, len(group.members))
    if remainder or bits not in (8, 16, 32):
        raise instruction.refusal(f"{whole.bits} bits are no {len(group.members)} registers")
    return unsigned(bits)


def _cvt(registers: RegisterFile, opcode: Opcode) -> None:
    """Convert one element, or two into both halves of a register."""
    if MINIFLOATS.keys() & {*opcode.names, *opcode.modifiers}:
        _cvt_minifloats(registers, opcode)
        return
    types_fit = len(opcode.names) == 2 and "pred" not in opcode.names
    if not types_fit or not MODIFIERS.issuperset(opcode.modifiers):
        raise registers.user.unsupported()
    to, source = opcode.types
    packs = to.lanes == 2 and source.lanes == 1
    target, *operands = registers.user.take(3 if packs else 2)
    values = _cvt_sources(registers, source, operands)
    converted = [convert(opcode, x, to.element, tf32=opcode.names[0] == "tf32") for x in values]
    results = [x for x in converted if x is not None]
    if len(results) != to.lanes:
        raise registers.user.unsupported()
    registers.write(target, results[0] if to.lanes == 1 else joined(results), wider=True)


def _cvt_minifloats(registers: RegisterFile, opcode: Opcode) -> None:
    """Convert two f32 to a pair of minifloats, or such a pair to f16."""
    modifiers = opcode.modifiers
    plain = tuple(name for name in modifiers if name not in (*MINIFLOATS, "relu"))
    (name,) = (name for name in modifiers if name in MINIFLOATS)
    encoding, storage = MINIFLOATS[name]
    register = unsigned(2 * storage)
    if opcode.names == ("f32",) and plain == ("rn", "satfinite"):
        to, *sources = registers.user.take(3)
        values = _cvt_sources(registers, opcode.types[0], sources)
        low, high = (encoding.encode(limited(opcode, x)) for x in values)
        result = (low | (high << storage)).cast(register)
    elif opcode.names == ("f16x2",) and plain == ("rn",):
        to, source = registers.user.take(2)
        codes = registers.read(source, register, wider=True).cast(U32)
        floats = [encoding.decode(x).cast(F16) for x in (codes, codes >> storage)]
        result = joined([limited(opcode, x) for x in floats])
    else:
        raise registers.user.unsupported()
    registers.write(to, result, wider=True)


def _cvt_sources(
    registers: RegisterFile, source: PtxType, operands: Sequence[Operand]
) -> list[Expression]:
    """Return the elements to convert; of two operands, the second is the lower half's."""
    element = source.element if source.lanes == 1 else unsigned(source.bits)
    values = [registers.read(operand, element, wider=True) for operand in reversed(operands)]
    return values if source.lanes == 1 else fields(values[0], source.element, source.lanes)


def _lop3(registers: RegisterFile, opcode: Opcode) -> None:
    user = registers.user
    if opcode.names != ("b32",) or opcode.modifiers:
        raise user.unsupported()
    to, *sources, truth_table = user.take(5)
    if not isinstance(truth_table, Immediate) or not isinstance(truth_table.value, int):
        raise user.refusal("the last operand of lop3 is a number of 8 bits")
    x, y, z = (registers.read(x, U32) for x in sources)
    registers.write(to, lop3(x, y, z, truth_table.value & 0xFF))


def _barrier(registers: RegisterFile, opcode: Opcode) -> None:
    """Wait for all threads of the program."""
    (number,) = registers.user.take(1)
    if opcode.modifiers != ("sync",) or number != Immediate(0):
        raise registers.user.unsupported()
    if registers.guard is not None:
        raise registers.user.refusal(
            "all elements wait at a barrier, also those that branch past it"
        )
    registers.like.build.op(memory.barrier)


CUSTOM: dict[str, Callable[[RegisterFile, Opcode], None]] = {
    "mov": _mov,
    "cvta": _cvta,
    "cvt": _cvt,
    "lop3": _lop3,
    "bar": _barrier,
    "barrier": _barrier,
    "ld": load,
    "st": store,
    "red": reduce,
}
