"""Strength reduction of pointers in loops with wgmma: additions only, no multiplications.

IMAD.WIDE competes with HGMMA for register-file ports: each one costs 14 to 36 of the 1060 cycles of
a 128x256x64 f16 iteration. LLVM and ptxas form IMAD.WIDE whenever they can prove that an address is
a base plus a 32-bit index times the element size, even if the product was hoisted out of the loop.
In such loops we therefore scale indices by an opaque shift (inline asm), which LLVM cannot see
through and ptxas leaves a shift, and scale the steps of pointers the same way before the loop.

All pointers of a tile advance by the same amount, so one register can hold that amount, and every
iteration adds the start address of each pointer to it. Left alone, LLVM and ptxas choose other
forms, such as a register for each pointer that advances by a constant. The start addresses and the
steps are therefore opaque values as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tile.backends.nvptx.emit.function_builder import FunctionBuilder, Registers
from tile.backends.nvptx.emit.inline_asm import assemble
from tile.backends.nvptx.emit.types import is_literal, is_signed, llvm_type
from tile.ir.core import Block, Operation, Value
from tile.ir.ops import memory
from tile.ir.types import Fragment, Pointer
from tile.simt import ops


@dataclass(frozen=True)
class PointerInduction:
    """The pointers that a `for` advances: the numbers of its loop-carried tiles of pointers.

    `steps` are the steps in bytes that are not constant, by (register, shift), computed before the
    loop. It is None for a loop without wgmma, which needs none of this.
    """

    pointers: tuple[int, ...]
    steps: dict[tuple[str, int], str] | None

    @classmethod
    def of(cls, builder: FunctionBuilder, loop: Operation) -> PointerInduction:
        """Return the induction of a loop, and emit its steps before the loop."""
        if not has_wgmma(loop):
            return cls((), None)
        results = enumerate(loop.results)
        pointers = tuple(index for index, value in results if _is_tile_of_pointers(value))
        return cls(pointers, _steps(builder, loop, pointers))

    @contextmanager
    def iteration(self, builder: FunctionBuilder, region: Block) -> Iterator[None]:
        """Make the pointers and steps known to the rules that emit the loop's region."""
        for index in self.pointers:
            builder.induction_pointers.update(builder.of(region.args[1 + index]))
        outer, builder.pointer_steps = builder.pointer_steps, self.steps
        yield
        builder.pointer_steps = outer


def _steps(
    builder: FunctionBuilder, loop: Operation, pointers: Sequence[int]
) -> dict[tuple[str, int], str]:
    (region,) = loop.regions
    assert region.last is not None
    steps: dict[tuple[str, int], str] = {}
    for index in pointers:
        following = region.last.inputs[index].op
        if following is None or following.defn is not memory.addptr:
            continue
        offset, shift = following.inputs[1], following["stride"].bit_length() - 1
        if offset.block is not region:
            for by in dict.fromkeys(x for x in builder.of(offset) if not is_literal(x)):
                steps[by, shift] = _opaque_shift(builder, extend(builder, offset, by), shift)
    return steps


def has_wgmma(loop: Operation) -> bool:
    """Return True if the body of a `for` has a wgmma."""
    return any(op.defn is ops.wgmma.wgmma for op in loop.regions[0])


def _is_tile_of_pointers(value: Value) -> bool:
    return isinstance(value.type, Fragment) and isinstance(value.type.of, Pointer)


def opaque_start(builder: FunctionBuilder, value: Value) -> Registers:
    """Return the start addresses of pointers as opaque values, each distinct register once."""
    registers = builder.of(value)
    moved = {x: assemble(builder, "mov.b64 $0, $1;", ["i64"], [("i64", x)])[0] for x in registers}
    return [moved[x] for x in registers]


def opaque_step(builder: FunctionBuilder, step: int) -> str:
    """Return a constant step of pointers, in bytes, as an opaque value."""
    return builder.hoist(f'call i64 asm "mov.b64 $0, {step};", "=l"()')


def scale(builder: FunctionBuilder, offset: Value, register: str, shift: int) -> str:
    """Return a register of an offset, in elements, as bytes in 64 bits: shifted left by `shift`."""
    if builder.pointer_steps is None:
        extended = extend(builder, offset, register)
        return builder.new(f"shl i64 {extended}, {shift}") if shift else extended
    step = builder.pointer_steps.get((register, shift))
    return step or _opaque_shift(builder, extend(builder, offset, register), shift)


def extend(builder: FunctionBuilder, offset: Value, register: str) -> str:
    """Return a register of an offset, extended to 64 bits by the signedness of its type."""
    ty = llvm_type(offset.type.element)
    kind = "sext" if is_signed(offset.type.element) else "zext"
    return register if ty == "i64" else builder.new(f"{kind} {ty} {register} to i64")


def _opaque_shift(builder: FunctionBuilder, number: str, shift: int) -> str:
    """Return a 64-bit number shifted left, by an instruction that LLVM cannot see through."""
    text = f"shl.b64 $0, $1, {shift};"
    return assemble(builder, text, ["i64"], [("i64", number)])[0] if shift else number
