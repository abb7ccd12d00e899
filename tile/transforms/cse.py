"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from tile.ir.core import Block, Operation
from tile.ir.effects import effects, is_plain_load, is_pure
from tile.ir.module import Module
from tile.ir.op_definition import Effect
from tile.ir.passes import module_pass

Key = tuple[Any, ...]
CHANGES_MEMORY = Effect.WRITE | Effect.SYNC


@module_pass("cse", before=None)
def cse(module: Module) -> None:
    """Replace an operation by an equal one that dominates it.

    This applies to pure operations, and to loads within a block if no operation between them writes
    memory or synchronizes.

        %a = mul %x, %y : f32                     %a = mul %x, %y : f32
        %b = mul %y, %x : f32                     %c = add %a, %a : f32
        %c = add %a, %b : f32
    """
    for function in module:
        _Eliminator().block(function.body)


class _Eliminator:
    def __init__(self) -> None:
        # The available expressions; those of a block are removed at its end.
        self.pure: dict[Key, Operation] = {}

    def block(self, block: Block) -> None:
        added: list[Key] = []
        loads: dict[Key, Operation] = {}
        for op in block:
            for region in op.regions:
                if op.defn.isolated:  # it may not use values from outside
                    _Eliminator().block(region)
                else:
                    self.block(region)
            if op.defn.terminator or op.regions:
                loads = {} if effects(op) & CHANGES_MEMORY else loads
            elif is_pure(op):
                self.merge(op, self.pure, added)
            elif is_plain_load(op):
                self.merge(op, loads, [])
            elif effects(op) & CHANGES_MEMORY:
                loads = {}
        for key in added:
            del self.pure[key]

    def merge(self, op: Operation, available: dict[Key, Operation], added: list[Key]) -> None:
        key = _key(op)
        first = available.setdefault(key, op)
        if first is op:
            added.append(key)
        else:
            op.replace_by(first.results)


def _key(op: Operation) -> Key:
    operands = [None if value is None else id(value) for value in op.operands]
    if op.defn.commutative:
        operands.sort(key=lambda number: number or 0)
    return expression_key(op, operands)


def expression_key(op: Operation, operands: Sequence[Hashable]) -> Key:
    """Return what equal operations have in common, given what their operands have."""
    attributes = tuple(map(_attribute_key, op.attributes.values()))
    return op.defn, tuple(operands), attributes, tuple(value.type for value in op.results)


def _attribute_key(value: object) -> object:
    """Return the key of an attribute's value.

    0.0 differs from -0.0, 1 from 1.0 and True, and a NaN equals itself.
    """
    return (type(value), repr(value)) if isinstance(value, float | bool | int) else value
