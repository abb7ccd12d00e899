"""Instructions whose function a table or a constant chooses: `lop3` and `prmt` (PTX ISA 9.7.8)."""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.effects import constant_of
from tile.ir.expressions import Expression, total
from tile.ir.types import U32, U64
from tile.transforms.expand_inline_asm.integers import field_of
from tile.transforms.expand_inline_asm.rules import Opcode, rules

# Selectors of the modes of `prmt` for the controls 0 to 3.
_SELECTORS = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}


def lop3(x: Expression, y: Expression, z: Expression, table: int) -> Expression:
    """Return a function of three bits, given as a truth table, on each bit.

    Bit 4 x + 2 y + z of the table is the result. As a polynomial over F2 it is the XOR of those
    monomials whose coefficients, the Moebius transform of the table, are 1.
    """
    coefficients = [table >> index & 1 for index in range(8)]
    for bit in (1, 2, 4):
        for index in range(8):
            if index & bit:
                coefficients[index] ^= coefficients[index ^ bit]
    terms = [_monomial((x, y, z), index) for index in range(8) if coefficients[index]]
    result = x.constant(0)
    for term in terms:
        result = result ^ term
    return result


def _monomial(operands: Sequence[Expression], index: int) -> Expression:
    chosen = [x for x, bit in zip(operands, (4, 2, 1), strict=True) if index & bit]
    result = operands[0].constant(-1)
    for operand in chosen:
        result = result & operand
    return result


def permute(op: Opcode, x: Expression, y: Expression, selector: Expression) -> Expression:
    """Return four bytes of `y:x`; bit 3 of a selector repeats the byte's sign instead."""
    number = constant_of(selector.value)
    if number is not None:
        return _permute_by_constant(x, y, int(number))
    both = x.cast(U64) | (y.cast(U64) << 32)
    result = x.constant(0)
    for at in range(4):
        nibble = selector >> (4 * at)
        byte = (both >> ((nibble & 7) << 3).cast(U64)).cast(U32) & 0xFF
        sign = (byte >> 7) * 0xFF
        chosen = (nibble & 8).equals(0).select(byte, sign)
        result = result | (chosen << (8 * at))
    return result


def _permute_by_constant(x: Expression, y: Expression, selector: int) -> Expression:
    fields = []
    for at in range(4):
        nibble = selector >> 4 * at & 15
        byte = field_of(y if nibble & 4 else x, 8 * (nibble & 3), 8, is_signed=nibble >= 8)
        if nibble >= 8:
            byte = (byte >> 31) * 0xFF
        fields.append(byte << (8 * at))
    return total(fields)


def permute_by_mode(op: Opcode, x: Expression, y: Expression, control: Expression) -> Expression:
    """Return the bytes that a mode chooses by the two low bits of the control."""
    selectors = _SELECTORS[op.modifiers[0]]
    low = control & 3
    selector = control.constant(selectors[0])
    for number in range(1, 4):
        selector = low.equals(number).select(control.constant(selectors[number]), selector)
    return permute(op, x, y, selector)


RULES = [
    *rules("prmt", "b32", "t: t t t", permute),
    *rules(f"prmt.{'|'.join(_SELECTORS)}", "b32", "t: t t t", permute_by_mode),
]
