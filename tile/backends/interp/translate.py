"""Translate IR to bytecode: blocks of instructions over numbered registers (`bytecode.py`).

Each value of a function has its own register. An instruction frees the registers of values that are
dead after it, so that a chunk of programs holds little more than its live values. An operation runs
the rule that a table has for it or, if it is pure, its reference semantics.

The region of a reduction or scan is a function of scalars. `run_region` runs its bytecode on
arrays: a scalar of the region is an array with one element for each of the pairs that are combined
at once; its axes are the program axis and those of the tile. The operations of the region
broadcast, so they work unchanged. If elements take different arms of an `if`, both arms run and
each element selects its own result. In runs with checks these arrays may be `CheckedValue`s, which
`select` must handle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tile.analysis.exit_slice import exit_slice
from tile.backends.interp.bytecode import (
    ABSENT,
    BlockCode,
    Code,
    FunctionCode,
    Instruction,
    Run,
)
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.spin_loops import ObservedAccess
from tile.backends.interp.values import (
    AFFINE,
    Affine,
    Array,
    CheckedValue,
    RegisterValue,
    Repeated,
    RunValue,
    array_of,
    counting,
    full,
)
from tile.errors import UnsupportedError
from tile.ir import semantics
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.descriptor_type import Descriptor
from tile.ir.effects import accesses_global
from tile.ir.module import Module
from tile.ir.numpy_dtypes import ByDtype, numpy_dtype
from tile.ir.op_definition import OpDef
from tile.ir.ops import control, shape
from tile.ir.shared_type import Shared
from tile.ir.types import Type

Shape = tuple[int, ...]


Rules = dict[OpDef, Callable[[Operation], Run]]


def translate(
    module: Module, rules: Rules, translator: Callable[[Rules], Translator] | None = None
) -> Code:
    """Translate a module to code, with rules for operations that have effects.

    `translator` creates the translator of each function; by default a `Translator`.
    Raises `UnsupportedError` for an operation without reference semantics and without a rule.
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
    """Return the bytes of a value; a shared-memory buffer has none in registers."""
    if isinstance(ty, Descriptor):
        return sum(part.itemsize for part in ty.component_types)
    return 0 if isinstance(ty, Shared) else ty.element.bytes_of(math.prod(ty.shape))


class Translator:
    """Translates one function to code."""

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
                    run=self.observe_access(op) if op.defn.family != "control" else None,
                    regions=() if op.defn.isolated else tuple(map(self.block, op.regions)),
                    exits=exit_slice(op) if op.defn is control.while_ else None,
                )
            )
        self.free(block, code)
        return code

    def free(self, block: Block, code: BlockCode) -> None:
        """Let each instruction free the values of this block that are dead after it."""
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
        if op.defn.semantics is None:
            raise UnsupportedError(f"the interpreter has no rule for `{op.name}`", loc=op.loc)
        return self.isolated(op) if op.defn.isolated else pure(op)

    def observe_access(self, op: Operation) -> Run:
        """Return the function of an operation; a `while` can observe the accesses inside it."""
        run = self.run(op)
        waits = accesses_global(op) and any(o.defn is control.while_ for o in op.ancestors())
        return _observed(op, run) if waits else run

    def isolated(self, op: Operation) -> Run:
        """Return the function of an isolated operation: its semantics, given its regions."""
        semantics, shapes = semantics_of(op), _shapes(op)
        regions = self.regions(op)

        def run(batch: ProgramBatch, *values: RunValue) -> Any:
            functions = {name: partial(run_region, batch, *code) for name, code in regions.items()}
            return semantics(*_full_operands(values, shapes), **functions)

        return run

    def regions(self, op: Operation) -> dict[str, tuple[BlockCode, int]]:
        """Return the code of each region of an isolated operation, and its number of registers."""
        regions = {}
        for name, region in zip(op.defn.regions, op.regions, strict=True):
            translator = self.inner()
            regions[name] = translator.block(region), len(translator.registers)
        return regions

    def inner(self) -> Translator:
        """Return a translator for a region of an isolated operation."""
        return Translator(self.rules)


def _observed(op: Operation, run: Run) -> Run:
    """Wrap an access so that enclosing loops which observe an iteration record it."""

    def access(batch: ProgramBatch, *operands: RegisterValue | None) -> Any:
        result = run(batch, *operands)
        for frame in batch.frames:
            if frame.loop is not None and frame.loop.observed is not None:
                frame.loop.observed.add(ObservedAccess(op, operands, result))
        return result

    return access


def semantics_of(op: Operation) -> Callable[..., Any]:
    """Return the reference semantics of an operation, for its attributes and operands' dtype."""
    semantics = op.defn.semantics
    assert semantics is not None
    if isinstance(semantics, ByDtype):
        chosen: Callable[..., Any] = semantics[numpy_dtype(op.inputs[0].type.element)]
        return chosen
    return partial(semantics, **op.attributes) if op.attributes else semantics


def pure(op: Operation) -> Run:
    """Return the function of a pure operation: its semantics, or an affine rule if one applies."""
    if op.defn is shape.arange:
        ramp = counting(op)
        return lambda batch: ramp
    semantics = semantics_of(op)
    if not op.operands:
        value = semantics()
        return lambda batch: value
    if op.defn.unit_axes_broadcast:
        affine = AFFINE.get(op.defn)
        if affine is None:
            return partial(_run_compact, semantics)
        return partial(_run_affine, semantics, affine, op)
    return partial(_run_full, semantics, _shapes(op))


def _run_compact(semantics: Run, batch: ProgramBatch, *values: RegisterValue) -> Any:
    for value in values:
        if type(value) is not np.ndarray:
            return _run_lazy(semantics, values)
    return semantics(*values)


def _run_affine(
    semantics: Run, affine: Run, op: Operation, batch: ProgramBatch, *values: RegisterValue
) -> Any:
    kinds = set(map(type, values))
    if Affine in kinds and Repeated not in kinds:
        result = affine(op, *values)
        if result is not None:
            return result
    return _run_lazy(semantics, values) if kinds != _ARRAYS else semantics(*values)


_ARRAYS = frozenset({np.ndarray})


def _run_lazy(semantics: Run, values: Sequence[RegisterValue]) -> Any:
    """Run semantics on values of which some are no arrays."""
    for value in values:
        if type(value) is Repeated:
            return value.mapped(semantics, *values)
    return semantics(*map(array_of, values))


def _run_full(
    semantics: Run, shapes: list[Shape], batch: ProgramBatch, *values: RunValue | None
) -> Any:
    return semantics(*_full_operands(values, shapes))


def _shapes(op: Operation) -> list[Shape]:
    return [() if value is None else value.type.shape for value in op.operands]


def _full_operands(
    values: Sequence[RunValue | None], shapes: Sequence[Shape]
) -> list[Array | None]:
    """Broadcast operands to the full shapes of their tiles; None for one that is absent."""
    pairs = zip(values, shapes, strict=True)
    return [None if value is None else full(value, shape) for value, shape in pairs]


Select = Callable[[Any, Any, Any], Any]


def run_region(
    batch: ProgramBatch,
    code: BlockCode,
    registers: int,
    *arguments: RegisterValue,
    select: Select = semantics.select,
) -> list[Any]:
    """Return the results of a region, or of a function that it calls, for these arguments.

    select: chooses between the results of both arms of an `if`, element by element.
    """
    held: list[Any] = [None] * registers

    def run(code: BlockCode, arguments: Sequence[RegisterValue]) -> list[Any]:
        for register, value in zip(code.args, arguments, strict=True):
            held[register] = value
        for instruction in code.instructions:
            operands = [held[register] for register in instruction.operands]
            if instruction.op.defn.terminator:
                return operands
            results = results_of(instruction, operands)
            for register, value in zip(instruction.results, results, strict=True):
                held[register] = value
            for register in instruction.frees:
                held[register] = None
        raise AssertionError("a region without a terminator")

    def results_of(instruction: Instruction, operands: list[Any]) -> Sequence[Any]:
        if instruction.run is not None:
            return [instruction.run(batch, *operands)]
        if instruction.op.defn is control.call:
            callee = batch.launch.code.functions[instruction.op["callee"]]
            return run_region(batch, callee.body, callee.registers, *operands, select=select)
        (condition,) = operands
        if not isinstance(condition, CheckedValue):
            if condition.all():
                return run(instruction.regions[0], ())
            if not condition.any():
                return run(instruction.regions[1], ())
        then, orelse = (run(region, ()) for region in instruction.regions)
        return [select(condition, x, y) for x, y in zip(then, orelse, strict=True)]

    return run(code, arguments)
