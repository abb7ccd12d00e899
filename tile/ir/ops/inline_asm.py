"""Inline PTX on tiles: its constraints, and how elements are packed into its registers.

A *group* is `pack` elements of each operand and result; the text is executed once for each group.
Elements narrower than 32 bits share a register: as many as fit 32 bits, at most `pack`, the first
in the lowest bits. A *register* of the text is one item of `constraints`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tile.ir.declare import op
from tile.ir.extents import is_power_of_two, refuse_extent, unpadded_extent
from tile.ir.types import I1, Element, Type, listed, require, with_element

# Widths of registers in bits by their constraint; `f` and `d` are registers of floats.
WIDTHS = {"b": 1, "h": 16, "r": 32, "l": 64, "f": 32, "d": 64}
_EXACT = "bfd"  # those that hold nothing narrower
_CLOBBER = re.compile(r"~\{[\w.]+\}")
_REFERENCE = re.compile(r"\$(\$|\d+|\{\d+\}|)")


@dataclass(frozen=True)
class Constraints:
    """The registers of inline PTX: letters of `WIDTHS`.

    `matching` has, for each input, the number of the output whose register it shares, or None.
    `outputs` keep their `&` (written before all inputs are read). `clobbers` are kept as they are.
    """

    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    matching: tuple[int | None, ...]
    clobbers: tuple[str, ...]


@lru_cache(maxsize=1024)
def parse_constraints(text: str) -> Constraints:
    """Parse such as `=r,=f,r,l,0`: outputs, then inputs. Raises `TypeRuleError`."""
    outputs: list[str] = []
    inputs: list[str] = []
    matching: list[int | None] = []
    clobbers: list[str] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        if _CLOBBER.fullmatch(item):
            clobbers.append(item)
        elif item.startswith("="):
            require(not inputs, f"constraints name outputs first; `{item}` is after an input")
            outputs.append(item[1:])
        elif item.isdecimal():
            number = int(item)
            require(number < len(outputs), f"the constraint {number} names no output")
            inputs.append(outputs[number].removeprefix("&"))
            matching.append(number)
        else:
            inputs.append(item)
            matching.append(None)
    for item in (*outputs, *inputs):
        require(
            item.removeprefix("&") in WIDTHS and not (item.startswith("&") and item in inputs),
            f"`{item}` is not a constraint of a register; there are {', '.join(WIDTHS)}, for "
            f"outputs after `=` or `=&`, and numbers of outputs for inputs in the same register",
        )
    return Constraints(tuple(outputs), tuple(inputs), tuple(matching), tuple(clobbers))


def elements_per_register(ty: Type, pack: int) -> int:
    """Return how many elements of a type share a register."""
    return min(pack, max(1, 32 // ty.element.bits))


def registers_of(ty: Type, pack: int) -> int:
    """Return the number of registers that hold the elements of a type in one group."""
    return pack // elements_per_register(ty, pack)


@op(
    any_extents=True,
    examples=(
        '%x: tile<8xi32> | %r = inline_asm %x {asm = "popc.b32 $0, $1;", constraints = "=r,r", '
        "to = (i32)} : tile<8xi32>",
        '%x: tile<8xu8> | %r = inline_asm %x {asm = "not.b32 $0, $1;", constraints = "=r,r", '
        "pack = 4, to = (u8)} : tile<8xu8>",
    ),
)
def inline_asm(
    *x: Type,
    asm: str,
    constraints: str,
    pack: int = 1,
    volatile: bool = False,
    reference: bool = False,
    to: tuple[Type, ...],
) -> tuple[Type, ...]:
    """Execute PTX on each group of `pack` elements; which elements form a group is unspecified.

    Operands and results have one shape; `to` has the element types of the results. `$0` and so on
    are the registers of the results, then those of the operands; `constraints` has one item for
    each, as in LLVM. The last group is padded with any values. `volatile`: the text has effects
    besides its results. With `reference`, the last operands are what backends without PTX return as
    the results. Without it, such backends expand the text (`expand-inline-asm`).

    With `volatile`, and with `pack` above 1, extents are powers of two: padding would have effects,
    or share a group with elements.
    """
    require(len(to) > 0, "inline_asm has at least one result")
    require(
        all(isinstance(ty, Element) for ty in to),
        f"the `to` of inline_asm has element types, not ({listed(to)})",
    )
    require(is_power_of_two(pack), f"the pack of inline_asm is a power of two, not {pack}")
    shapes = {with_element(ty, I1) for ty in x}
    require(len(shapes) <= 1, f"inline_asm takes values of one shape, not {listed(x)}")
    extent = unpadded_extent(x[0].shape) if x else None
    if extent is not None and (volatile or pack > 1):
        option = "volatile" if volatile else f"pack = {pack}"
        refuse_extent(f"inline_asm with {option}", x[0], extent)
    results = tuple(with_element(x[0], ty.element) if x else ty for ty in to)
    operands = x
    if reference:
        operands, references = x[: len(x) - len(to)], x[len(x) - len(to) :]
        require(
            references == results,
            f"the references of inline_asm have the types of its results, ({listed(results)}), not "
            f"({listed(references)})",
        )
    _check_registers(asm, constraints, operands, results, pack)
    return results


def _check_registers(
    asm: str, constraints: str, operands: Sequence[Type], results: Sequence[Type], pack: int
) -> None:
    parsed = parse_constraints(constraints)
    for kind, items, types in (
        ("output", parsed.outputs, results),
        ("input", parsed.inputs, operands),
    ):
        counts = [registers_of(ty, pack) for ty in types]
        require(
            len(items) == sum(counts),
            f"with pack = {pack}, ({listed(types)}) take {sum(counts)} {kind} registers, and the "
            f"constraints `{constraints}` have {len(items)} {kind}s",
        )
        holders = (ty for ty, count in zip(types, counts, strict=True) for _ in range(count))
        for item, ty in zip(items, holders, strict=True):
            _check_width(item.removeprefix("&"), ty, pack)
    count = len(parsed.outputs) + len(parsed.inputs)
    for name in _REFERENCE.findall(asm):
        number = name.strip("{}")
        require(
            number == "$" or (number.isdecimal() and int(number) < count),
            f"`${name}` in the asm names no register; there are $0 to ${count - 1}",
        )


def _check_width(item: str, ty: Type, pack: int) -> None:
    width, bits = WIDTHS[item], elements_per_register(ty, pack) * ty.element.bits
    fits = bits == width if item in _EXACT else bits <= width
    alternatives = [name for name, other in WIDTHS.items() if other == max(bits, 16)]
    require(
        fits,
        f"the constraint `{item}` is of registers of {width} bits, and {ty.element} takes "
        f"{bits} bits of a register here; use {' or '.join(alternatives)}",
    )
