"""Verifier of the IR: structure, dominance, type rules, and the conditions of a level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from tile.errors import TileError, TypeRuleError, VerificationError
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.descriptor_type import Descriptor, addresses_memory
from tile.ir.extents import unpadded_extent
from tile.ir.linker import refuse_unresolved
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import control, reduce
from tile.ir.parameters import Argument
from tile.ir.printer import print_op
from tile.ir.shared_type import Shared
from tile.ir.types import Fragment, Tile, Type, listed, without_layout
from tile.location import Loc

# Conditions on operations at a level, in addition to their type rules; a condition raises
# `TypeRuleError`. The package that defines a level's types declares its conditions.
CONDITIONS: dict[Level, list[Callable[[Operation], None]]] = {level: [] for level in Level}


def condition(level: Level) -> Callable[[Callable[[Operation], None]], Callable[[Operation], None]]:
    """Declare a condition of a level."""

    def declare(check: Callable[[Operation], None]) -> Callable[[Operation], None]:
        CONDITIONS[level].append(check)
        return check

    return declare


def verify(module: Module, level: Level = Level.TILE) -> None:
    """Raise `VerificationError` at the first operation that breaks a rule.

    A declared function may be called at the TILE level only: `LinkError`.
    """
    if level is Level.TILE:
        for function in module.declarations.values():
            _Verifier(module, level).types(function.args, function.loc)
    else:
        refuse_unresolved(module)
    for function in module:
        _Verifier(module, level).function(function)


class _Verifier:
    def __init__(self, module: Module, level: Level) -> None:
        self.module = module
        self.level = level
        self.visible: set[Value] = set()
        # Inside an isolated region: the enclosing values, which would be visible otherwise.
        self.hidden: set[Value] = set()

    def function(self, function: Function) -> None:
        if function.kernel and function.result_types:
            self.fail(f"kernel {function} returns values; a kernel has no results", function.loc)
        self.types(function.args, function.loc)
        for value in function.args:
            if function.kernel and isinstance(value.type, Descriptor):
                self.fail(
                    f"{value!r} is a descriptor; a kernel takes its components instead",
                    function.loc,
                )
        for value, argument in zip(function.args, function.arguments, strict=True):
            flags = [flag for flag in Argument.FLAGS if getattr(argument, flag)]
            if flags and not addresses_memory(value.type):
                self.fail(f"{value!r} is {flags[0]}, which only a pointer is", function.loc)
            if not all(value.index < other < len(function.args) for other in argument.disjoint):
                self.fail(
                    f"{value!r} is disjoint from positions of later parameters, not from "
                    f"{argument.disjoint}",
                    function.loc,
                )
        self.block(function.body, f"function {function}")
        last = function.body.last
        assert last is not None
        if last.defn is not control.return_:
            self.fail(f"function {function} ends with `{last.name}`, not `return`", last.loc)
        returned = tuple(value.type for value in last.inputs)
        if returned != function.result_types:
            self.fail(
                f"{function} returns ({listed(function.result_types)}), not ({listed(returned)})",
                last.loc,
            )

    def block(self, block: Block, description: str) -> None:
        defined = list(block.args)
        self.visible.update(defined)
        if block.terminator is None:
            loc = block.last.loc if block.last is not None else None
            self.fail(f"{description} does not end with a terminator", loc)
        for op in block:
            if op.defn.terminator and op is not block.last:
                self.fail(
                    f"`{op.name}` is a terminator but not the last operation of its block", op.loc
                )
            self.op(op)
            self.visible.update(op.results)
            defined.extend(op.results)
        self.visible.difference_update(defined)

    def op(self, op: Operation) -> None:
        types: list[Type | None] = []
        for position, value in enumerate(op.operands):
            if value is None:
                types.append(None)
                continue
            types.append(value.type)
            if (op, position) not in value.uses:
                self.refuse(op, f"operand {position} of {op.name} is missing from its value's uses")
            if value not in self.visible:
                where = "where it is not defined"
                if value in self.hidden:
                    where = "from outside its isolated region"
                self.refuse(op, f"{op.name} uses %{value.name or '?'} {where}")
        if self.level not in op.defn.levels:
            self.refuse(op, f"{op.name} is not legal at the {self.level.value} level")
        try:
            inferred = op.defn.infer(types, op.defn.complete(op.attributes), op.regions)
        except TypeRuleError as error:
            self.refuse(op, error.message)
        actual = tuple([value.type for value in op.results])
        if inferred != actual and _plain(inferred) != _plain(actual):
            self.refuse(op, f"{op.name} has results ({listed(inferred)}), not ({listed(actual)})")
        if op.defn.explicit is not None and inferred != actual:
            self.refuse(op, f"{op.name} states ({listed(inferred)}), not ({listed(actual)})")
        self.types(op.results, op.loc)
        try:
            for check in CONDITIONS[self.level]:
                check(op)
        except TileError as error:
            self.refuse(op, error.message)
        if op.defn is control.call:
            self.call(op)
        outer = self.visible, self.hidden
        if op.defn.isolated:
            self.visible, self.hidden = set(), self.visible
        for name, region in zip(op.defn.regions, op.regions, strict=True):
            if region.parent is not op:
                self.refuse(op, f"region `{name}` of {op.name} belongs to another operation")
            self.block(region, f"region `{name}` of {op.name}")
        self.visible, self.hidden = outer
        if op.defn.isolated:
            self.combining(op)

    def call(self, op: Operation) -> None:
        name = op["callee"]
        callee = self.module.functions.get(name) or self.module.declarations.get(name)
        if callee is None:
            self.refuse(
                op,
                f"the module has no function @{name}; if another module defines it, declare it "
                f"by its signature, as in `func @{name}(%x: f32) -> (f32)`",
            )
        parameters = [value.type for value in callee.args]
        arguments = [value.type for value in op.inputs]
        if arguments != parameters:
            self.refuse(op, f"{callee} takes ({listed(parameters)}), not ({listed(arguments)})")
        if op["results"] != callee.result_types:
            self.refuse(
                op,
                f"{callee} returns ({listed(callee.result_types)}), not ({listed(op['results'])})",
            )

    def combining(self, op: Operation) -> None:
        """Check that functions called by a combining region obey the region's restrictions."""
        for region in op.regions:
            illegal = reduce.first_illegal_op(region, self.module.functions)
            if illegal is not None:
                self.refuse(illegal, reduce.illegal_op_message(op.name, illegal))

    def types(self, values: Sequence[Value], loc: Loc | None) -> None:
        legal = _LEGAL[self.level]
        for value in values:
            if value.type in legal:
                continue
            violation = _violation(value.type, self.level)
            if violation:
                self.fail(f"{value!r} {violation}", loc)
            legal.add(value.type)

    def fail(self, message: str, loc: Loc | None) -> NoReturn:
        raise VerificationError(message, loc=loc)

    def refuse(self, op: Operation, message: str) -> NoReturn:
        note = f"in `{print_op(op).splitlines()[0]}`"
        raise VerificationError(message, loc=op.loc, notes=[note])


def _violation(ty: Type, level: Level) -> str:
    """Return the reason why a type is illegal at a level, or "" if it is legal."""
    if isinstance(ty, Tile):
        if level is Level.THREAD:
            return "is a tile, which is illegal at the thread level"
        if level is Level.TILE and ty.layout is not None:
            return "has a layout, which is illegal at the tile level"
        if level is Level.LAID_OUT and ty.layout is None:
            return "has no layout, which every tile has at the laid-out level"
        extent = None if level is Level.TILE else unpadded_extent(ty.shape)
        if extent is not None:
            return f"has an extent of {extent}; after pad-extents they are powers of two"
    if isinstance(ty, Shared) and level is Level.TILE:
        return "is in shared memory, which is illegal at the tile level"
    if isinstance(ty, Descriptor) and level is not Level.TILE:
        return f"is a descriptor, which is illegal at the {level.value} level"
    if isinstance(ty, Fragment) and level is not Level.THREAD:
        return f"is a fragment, which is illegal at the {level.value} level"
    return ""


# The types that are known to be legal at a level.
_LEGAL: dict[Level, set[Type]] = {level: set() for level in Level}


def _plain(types: Sequence[Type]) -> list[Type]:
    return [without_layout(ty) for ty in types]
