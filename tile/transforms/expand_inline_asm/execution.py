"""Execute the statements of inline PTX on expressions: the rules of `RULES`, `mov` and `cvt`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from tile.errors import CompilationError
from tile.ir.ops import memory
from tile.ir.types import F16, I1, U32, Scalar
from tile.transforms.expand_inline_asm import comparisons, floats, integers, lookup, video
from tile.transforms.expand_inline_asm.branches import Branches
from tile.transforms.expand_inline_asm.conversions import MODIFIERS, convert
from tile.transforms.expand_inline_asm.expression import Expression, total, unsigned
from tile.transforms.expand_inline_asm.lookup import lop3
from tile.transforms.expand_inline_asm.memory import ONCE_A_THREAD, load, reduce, store
from tile.transforms.expand_inline_asm.minifloats import MINIFLOATS, decode, encode
from tile.transforms.expand_inline_asm.operands import guard_of, operands_of, target_of
from tile.transforms.expand_inline_asm.registers import RegisterFile
from tile.transforms.expand_inline_asm.rules import (
    Opcode,
    PtxType,
    Rule,
    RuleTable,
    element_named,
    split_opcode,
    table,
    unsupported,
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
            opcode = split_opcode(statement.opcode)
            if opcode.base == "bra":
                branches.branch(registers, statement)
            else:
                _execute_one(registers, opcode, statement)
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


def _execute_one(registers: RegisterFile, opcode: Opcode, instruction: Instruction) -> None:
    if opcode.base in REFUSED:
        raise unsupported(instruction, f": {REFUSED[opcode.base]}")
    addresses = any(isinstance(operand, Address) for operand in instruction.operands)
    if addresses and opcode.base not in ("ld", "st", "red"):
        raise unsupported(instruction)
    CUSTOM.get(opcode.base, _by_rule)(registers, opcode, instruction)


def _by_rule(registers: RegisterFile, opcode: Opcode, instruction: Instruction) -> None:
    """Execute an instruction by its rule in the table."""
    rule = _rule(opcode, instruction)
    to, *sources = operands_of(instruction, 1 + len(rule.sources))
    element = replace(opcode, names=tuple(name.removesuffix("x2") for name in opcode.names))
    lanes = opcode.types[0].lanes
    columns = [
        _read(registers, source, element_named(name, element), lanes, instruction)
        for name, source in zip(rule.sources, sources, strict=True)
    ]
    results = [rule.compute(element, *operands) for operands in zip(*columns, strict=True)]
    guard = guard_of(registers, instruction)
    if isinstance(to, Group) and not to.braces:
        _write_pair(registers, to, results[0], _complement(registers, opcode, instruction), guard)
        return
    result = results[0] if lanes == 1 else joined(results)
    registers.write(target_of(to, instruction), result, instruction, guard)


def _rule(opcode: Opcode, instruction: Instruction) -> Rule:
    candidates = RULES.get((opcode.base, opcode.names[0]), ()) if opcode.names else ()
    for rule in candidates:
        if rule.takes(opcode):
            return rule
    raise unsupported(instruction)


def _read(
    registers: RegisterFile, operand: Operand, element: Scalar, lanes: int, user: Instruction
) -> list[Expression]:
    """Return the elements that an operand has in its register."""
    if isinstance(operand, Group | Address):
        raise user.refusal("it takes no vector")
    if lanes == 1:
        return [registers.read(operand, element, user)]
    whole = registers.read(operand, unsigned(element.bits * lanes), user)
    return fields(whole, element, lanes)


def fields(whole: Expression, element: Scalar, lanes: int) -> list[Expression]:
    """Return the elements in an unsigned integer; the first is in the lowest bits."""
    narrow = unsigned(element.bits)
    shifted = [whole >> (at * element.bits) if at else whole for at in range(lanes)]
    return [x.cast(narrow).view(element) for x in shifted]


def joined(elements: Sequence[Expression]) -> Expression:
    """Return an unsigned integer with these elements; the inverse of `fields`."""
    bits = elements[0].bits
    to = unsigned(bits * len(elements))
    wide = [x.unsigned().cast(to) for x in elements]
    return total([x << (at * bits) if at else x for at, x in enumerate(wide)])


def _complement(registers: RegisterFile, opcode: Opcode, instruction: Instruction) -> Expression:
    """Return the second result of `setp`: its comparison negated before it is combined."""
    plain = replace(
        opcode, modifiers=tuple(m for m in opcode.modifiers if m not in comparisons.COMBINATIONS)
    )
    element = opcode.types[0].element
    x, y = (
        _read(registers, operand, element, 1, instruction)[0]
        for operand in instruction.operands[1:3]
    )
    holds = ~comparisons.compare(plain, x, y)
    if len(instruction.operands) == 3:
        return holds
    (other,) = _read(registers, instruction.operands[3], I1, 1, instruction)
    return holds.apply(comparisons.COMBINATIONS[opcode.one_of(comparisons.COMBINATIONS)], other)


def _write_pair(
    registers: RegisterFile,
    to: Group,
    first: Expression,
    second: Expression,
    guard: Expression | None,
) -> None:
    user = Instruction("setp", (), None, 0, "setp")
    for name, value in zip(to.members, (first, second), strict=True):
        registers.write(target_of(name, user), value, user, guard)


# -- mov, cvt and lop3


def _mov(registers: RegisterFile, opcode: Opcode, instruction: Instruction) -> None:
    """Copy a register, or join or split one as a vector."""
    if len(opcode.names) != 1 or opcode.modifiers:
        raise unsupported(instruction)
    to, source = operands_of(instruction, 2)
    whole = opcode.types[0].element
    guard = guard_of(registers, instruction)
    if isinstance(source, Group):
        part = _part(whole, source, instruction)
        value = joined([registers.read(x, part, instruction) for x in source.members])
    else:
        (value,) = _read(registers, source, whole, 1, instruction)
    if not isinstance(to, Group):
        registers.write(target_of(to, instruction), value, instruction, guard)
        return
    part = _part(whole, to, instruction)
    for name, field in zip(
        to.members, fields(value.unsigned(), part, len(to.members)), strict=True
    ):
        registers.write(target_of(name, instruction), field, instruction, guard)


def _cvta(registers: RegisterFile, opcode: Opcode, instruction: Instruction) -> None:
    """Copy an address: those of global memory are generic ones."""
    if opcode.modifiers not in (("global",), ("to", "global")):
        raise unsupported(instruction)
    _mov(registers, replace(opcode, modifiers=()), instruction)


def _part(whole: Scalar, group: Group, instruction: Instruction) -> Scalar:
    bits, remainder = divmod(whole.bits, len(group.members))
    if remainder or bits not in (8, 16, 32):
        raise instruction.refusal(f"{whole.bits} bits are no {len(group.members)} registers")
    return unsigned(bits)


def _cvt(registers: RegisterFile, opcode: Opcode, instruction: Instruction) -> None:
    """Convert one element, or two into both halves of a register."""
    if MINIFLOATS.keys() & {*opcode.names, *opcode.modifiers}:
        _cvt_minifloats(registers, opcode, instruction)
        return
    types_fit = len(opcode.names) == 2 and "pred" not in opcode.names
    if not types_fit or not MODIFIERS.issuperset(opcode.modifiers):
        raise unsupported(instruction)
    to, source = opcode.types
    packs = to.lanes == 2 and source.lanes == 1
    target, *operands = operands_of(instruction, 3 if packs else 2)
    values = _cvt_sources(registers, source, operands, instruction)
    converted = [convert(opcode, x, to.element, tf32=opcode.names[0] == "tf32") for x in values]
    results = [x for x in converted if x is not None]
    if len(results) != to.lanes:
        raise unsupported(instruction)
    registers.write(
        target_of(target, instruction),
        results[0] if to.lanes == 1 else joined(results),
        instruction,
        guard_of(registers, instruction),
        wider=True,
    )


def _cvt_minifloats(registers: RegisterFile, opcode: Opcode, instruction: Instruction) -> None:
    """Convert two f32 to a pair of minifloats, or such a pair to f16."""
    modifiers = opcode.modifiers
    plain = tuple(name for name in modifiers if name not in (*MINIFLOATS, "relu"))
    (name,) = (name for name in modifiers if name in MINIFLOATS)
    mini, guard = MINIFLOATS[name], guard_of(registers, instruction)
    if opcode.names == ("f32",) and plain == ("rn", "satfinite"):
        to, *sources = operands_of(instruction, 3)
        values = _cvt_sources(registers, opcode.types[0], sources, instruction)
        if opcode.has("relu"):
            values = [x.maximum(0.0, propagate_nan=True) for x in values]
        low, high = (encode(x, mini) for x in values)
        result = (low | (high << mini.storage)).cast(unsigned(mini.register))
    elif opcode.names == ("f16x2",) and plain == ("rn",):
        to, source = operands_of(instruction, 2)
        (whole,) = _cvt_sources(registers, PtxType(unsigned(mini.register)), [source], instruction)
        codes = whole.cast(U32)
        floats = [decode(x, mini).cast(F16) for x in (codes, codes >> mini.storage)]
        if opcode.has("relu"):
            floats = [x.maximum(0.0, propagate_nan=True) for x in floats]
        result = joined(floats)
    else:
        raise unsupported(instruction)
    registers.write(target_of(to, instruction), result, instruction, guard, wider=True)


def _cvt_sources(
    registers: RegisterFile, source: PtxType, operands: Sequence[Operand], user: Instruction
) -> list[Expression]:
    """Return the elements to convert; of two operands, the second is the lower half's."""
    element = source.element if source.lanes == 1 else unsigned(source.bits)
    values = []
    for operand in reversed(operands):
        if isinstance(operand, Group | Address):
            raise user.refusal("it takes no vector")
        values.append(registers.read(operand, element, user, wider=True))
    return values if source.lanes == 1 else fields(values[0], source.element, source.lanes)


def _lop3(registers: RegisterFile, opcode: Opcode, instruction: Instruction) -> None:
    if opcode.names != ("b32",) or opcode.modifiers:
        raise unsupported(instruction)
    to, *sources, truth_table = operands_of(instruction, 5)
    if not isinstance(truth_table, Immediate) or not isinstance(truth_table.value, int):
        raise instruction.refusal("the last operand of lop3 is a number of 8 bits")
    x, y, z = (_read(registers, x, unsigned(32), 1, instruction)[0] for x in sources)
    result = lop3(x, y, z, truth_table.value & 0xFF)
    guard = guard_of(registers, instruction)
    registers.write(target_of(to, instruction), result, instruction, guard)


def _barrier(registers: RegisterFile, opcode: Opcode, instruction: Instruction) -> None:
    """Wait for all threads of the program."""
    (number,) = operands_of(instruction, 1)
    if opcode.modifiers != ("sync",) or number != Immediate(0):
        raise unsupported(instruction)
    if guard_of(registers, instruction) is not None:
        raise instruction.refusal("all elements wait at a barrier, also those that branch past it")
    registers.like.build.op(memory.barrier)


CUSTOM: dict[str, Callable[[RegisterFile, Opcode, Instruction], None]] = {
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
