"""IR made ready to run: blocks of instructions over numbered registers.

Each value of a function has a register of its own. An instruction knows when its operands are
read for the last time and frees them, so that a chunk of programs holds little more than what is
live.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tile.analysis.exit_slice import EXACT, ExitSlice, exit_slice
from tile.backends.interp.affine import AFFINE, counting
from tile.backends.interp.region import run_region
from tile.backends.interp.values import Affine, Array, RunValue, array_of, full
from tile.backends.interp.waiting import observed
from tile.errors import UnsupportedError
from tile.ir.core import Block, Function, Module, Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import control, shape
from tile.ir.types import Descriptor, Shared, Type

if TYPE_CHECKING:
    from tile.backends.interp.wave import Wave

# What an instruction does with its operands: one result, several, or None.
Run = Callable[..., Any]
Shape = tuple[int, ...]
ABSENT = -1


@dataclass(eq=False)
class Instruction:
    """An operation with its registers. `run` is None for control flow, which the machine does."""

    op: Operation
    operands: tuple[int, ...]
    results: tuple[int, ...]
    frees: tuple[int, ...] = ()
    run: Run | None = None
    regions: tuple[BlockCode, ...] = ()
    exits: ExitSlice | None = None  # of a `while`: what its end depends on


@dataclass(eq=False)
class BlockCode:
    """A block: the registers of its arguments, and its instructions."""

    args: tuple[int, ...]
    instructions: list[Instruction] = field(default_factory=list)


@dataclass(eq=False)
class FunctionCode:
    """A function, with the number of registers that a call of it takes."""

    function: Function
    body: BlockCode
    registers: int


@dataclass(eq=False)
class Code:
    """A module ready to run."""

    module: Module
    kernel: FunctionCode
    functions: dict[str, FunctionCode]
    polls: bool  # whether programs may wait for each other
    largest_value: int  # bytes of the largest value of a program, or thread


Rules = dict[OpDef, Callable[[Operation], Run]]


def translate(
    module: Module, rules: Rules, translator: Callable[[Rules], Translator] | None = None
) -> Code:
    """Make a module ready to run, with rules for operations that have effects.

    `translator` makes what gives each operation its instruction, for each function anew.
    Raises `UnsupportedError` for an operation that has neither a meaning nor a rule.
    """
    make = translator or Translator
    functions = {f.name: make(rules).function(f) for f in module}
    sizes = (_size(value.type) for op in module.walk() for value in op.results)
    return Code(
        module,
        functions[module.kernel.name],
        functions,
        polls=any(op.defn is control.while_ and bool(exit_slice(op).reads) for op in module.walk()),
        largest_value=max(sizes, default=1),
    )


def _size(ty: Type) -> int:
    """The bytes of a value; shared memory is none."""
    if isinstance(ty, Descriptor):
        return sum(part.itemsize for part in ty.parts)
    return 0 if isinstance(ty, Shared) else math.prod(ty.shape) * ty.element.itemsize


class Translator:
    """Makes the code of one function."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.registers: dict[Value, int] = {}

    def register(self, value: Value | None) -> int:
        if value is None:
            return ABSENT
        return self.registers.setdefault(value, len(self.registers))

    def function(self, function: Function) -> FunctionCode:
        body = self.block(function.body)
        return FunctionCode(function, body, len(self.registers))

    def block(self, block: Block) -> BlockCode:
        code = BlockCode(tuple(map(self.register, block.args)))
        for op in block:
            code.instructions.append(
                Instruction(
                    op,
                    tuple(map(self.register, op.operands)),
                    tuple(map(self.register, op.results)),
                    run=self.observed(op) if op.defn.family != "control" else None,
                    regions=() if op.defn.isolated else tuple(map(self.block, op.regions)),
                    exits=exit_slice(op) if op.defn is control.while_ else None,
                )
            )
        self.free(block, code)
        return code

    def free(self, block: Block, code: BlockCode) -> None:
        """Let each instruction free the values of this block that nothing reads after it."""
        own = {*block.args, *(value for op in block for value in op.results)}
        last: dict[Value, int] = {}
        for position, op in enumerate(block):
            for value in op.results:
                last[value] = position
            for inner in op.walk():
                for value in inner.inputs:
                    if value in own:
                        last[value] = position
        frees: dict[int, list[int]] = {}
        for value, position in last.items():
            frees.setdefault(position, []).append(self.register(value))
        for position, registers in frees.items():
            code.instructions[position].frees = tuple(registers)

    def run(self, op: Operation) -> Run:
        rule = self.rules.get(op.defn)
        if rule is not None:
            return rule(op)
        if op.defn.meaning is None:
            raise UnsupportedError(f"the interpreter has no rule for `{op.name}`", loc=op.loc)
        return self.isolated(op) if op.defn.isolated else pure(op)

    def observed(self, op: Operation) -> Run:
        """Run an operation; an access in a `while` so that the loop can observe it."""
        run = self.run(op)
        waits = op.defn in EXACT and any(o.defn is control.while_ for o in op.ancestors())
        return observed(op, run) if waits else run

    def isolated(self, op: Operation) -> Run:
        """Run an operation by its meaning, with its regions as functions of arrays."""
        assert op.defn.meaning is not None
        semantics = partial(op.defn.meaning, **op.attributes)
        shapes = _shapes(op)
        regions = self.regions(op)

        def run(batch: Wave, *values: RunValue) -> Any:
            functions = {name: partial(run_region, batch, *code) for name, code in regions.items()}
            return semantics(*_whole(values, shapes), **functions)

        return run

    def regions(self, op: Operation) -> dict[str, tuple[BlockCode, int]]:
        """The code of each region of an isolated operation, with the registers that it takes."""
        regions = {}
        for name, region in zip(op.defn.regions, op.regions, strict=True):
            translator = self.inner()
            regions[name] = translator.block(region), len(translator.registers)
        return regions

    def inner(self) -> Translator:
        """A translator for a region of an isolated operation."""
        return Translator(self.rules)


def pure(op: Operation) -> Run:
    """Run an operation by its meaning; index arithmetic by an affine rule where one applies."""
    if op.defn is shape.arange:
        ramp = counting(op)
        return lambda batch: ramp
    attributes = dict(op.attributes)
    assert op.defn.meaning is not None
    semantics = partial(op.defn.meaning, **attributes) if attributes else op.defn.meaning
    if not op.operands:
        value = semantics()
        return lambda batch: value
    if op.defn.keeps_units:
        affine = AFFINE.get(op.defn)
        if affine is None:
            return partial(_by_units, semantics)
        return partial(_by_affine, semantics, affine, op)
    return partial(_in_full, semantics, _shapes(op))


def _by_units(semantics: Run, batch: Wave, *values: RunValue) -> Any:
    return semantics(*[v.array() if type(v) is Affine else v for v in values])


def _by_affine(semantics: Run, affine: Run, op: Operation, batch: Wave, *values: RunValue) -> Any:
    for value in values:
        if type(value) is Affine:
            result = affine(op, *values)
            if result is not None:
                return result
            return semantics(*map(array_of, values))
    return semantics(*values)


def _in_full(semantics: Run, shapes: list[Shape], batch: Wave, *values: RunValue | None) -> Any:
    return semantics(*_whole(values, shapes))


def _shapes(op: Operation) -> list[Shape]:
    return [() if value is None else value.type.shape for value in op.operands]


def _whole(values: Sequence[RunValue | None], shapes: Sequence[Shape]) -> list[Array | None]:
    """Operands as arrays of their tiles' whole shapes; None for one that is absent."""
    pairs = zip(values, shapes, strict=True)
    return [None if value is None else full(value, shape) for value, shape in pairs]
