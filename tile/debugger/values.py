"""Variables of programs as NumPy values."""

from __future__ import annotations

import ast
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.backends.interp.checks.marked import Mark, bare, flag_of
from tile.backends.interp.values import Array, Held, full
from tile.backends.interp.wave import Activation, Wave
from tile.debugger.pointers import DescriptorValue, Pointers
from tile.errors import Loc
from tile.ir.core import Value
from tile.ir.steps import Variable
from tile.ir.types import Pointer, Type


class MissingError(Exception):
    """Raised for a name of the function without a value at this position; the message says why."""


@dataclass(frozen=True)
class CompileTimeValue:
    """A compile-time value that is neither a number nor a text."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Undefined:
    """The undefined elements of a value, and their origin."""

    where: Array
    text: str
    loc: Loc | None


@dataclass(frozen=True, eq=False)
class Leaf:
    """A variable, or an item of a tuple, with its values and their registers."""

    variable: Variable
    values: Sequence[Value]
    registers: Sequence[int]

    @property
    def type(self) -> Type | None:
        """The type of its only value; None for a descriptor, and for a compile-time value."""
        return self.values[0].type if len(self.values) == 1 else None


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads the registers of a call, for the `index`-th program of its batch, or for all."""

    batch: Wave
    activation: Activation
    index: int

    def held(self, register: int) -> Held:
        value = self.activation.read(register)
        assert value is not None
        return value

    def among_all(self, leaf: Leaf) -> Array:
        """Return a scalar for all programs of the batch; of extent 1 if it is equal in all."""
        return full(bare(self.held(leaf.registers[0])), ())

    def value(self, leaf: Leaf) -> Any:
        """Return the value of a leaf: NumPy's, a pointer, a descriptor, or a compile-time value.

        Raises `MissingError`.
        """
        variable = leaf.variable
        if variable.missing is not None:
            raise MissingError(f"`{variable.name}` has no value here: {variable.missing}")
        if variable.known is not None:
            return _compile_time_value(variable.known)
        if len(leaf.values) > 1:
            return self.descriptor(leaf)
        return self.one(leaf.values[0].type, leaf.registers[0])

    def one(self, ty: Type, register: int) -> Any:
        """Return a scalar or a tile; undefined elements are masked."""
        array = self.own(full(bare(self.held(register)), ty.shape))
        element = ty.element
        if isinstance(element, Pointer):
            return Pointers(self.batch.launch.memory, array, element.pointee)
        undefined = self.undefined(ty, register)
        if undefined is not None:
            return np.ma.masked_array(array, undefined.where)
        return array if ty.shape else array[()]

    def undefined(self, ty: Type, register: int) -> Undefined | None:
        """Return the undefined elements of a value; None if there are none."""
        flag = flag_of(self.held(register), Mark.UNDEFINED)
        if flag is None:
            return None
        truths = flag.where
        where = self.own(np.broadcast_to(truths, (truths.shape[0], *ty.shape)))
        return Undefined(where, flag.cause.text, flag.cause.loc) if where.any() else None

    def own(self, array: Array) -> Array:
        """Return a copy of the program's part of an array over the programs of the batch."""
        return np.array(array[self.index if array.shape[0] > 1 else 0])

    def descriptor(self, leaf: Leaf) -> DescriptorValue:
        pairs = zip(leaf.values, leaf.registers, strict=True)
        base, *numbers = (self.one(value.type, register) for value, register in pairs)
        rank = len(leaf.values) // 2
        sizes = [int(number) for number in numbers]
        return DescriptorValue(base, tuple(sizes[:rank]), (*sizes[rank:], 1))


def _compile_time_value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return CompileTimeValue(text)


Tree = Leaf | dict[str, Any]  # of such trees, by the names of a tuple's items


def trees(leaves: Sequence[Leaf]) -> dict[str, Tree]:
    """Return the variables by name, items of tuples under the name of the tuple."""
    variables: dict[str, Tree] = {}
    for leaf in leaves:
        *outer, last = leaf.variable.name.split(".")
        items: dict[str, Any] = variables
        for part in outer:
            items = items.setdefault(part, {})
        items[last] = leaf
    return variables


def whole(tree: Tree, reader: Reader) -> Any:
    """Return the value of a variable, with tuples assembled. Raises `MissingError`."""
    if isinstance(tree, Leaf):
        return reader.value(tree)
    items = [whole(item, reader) for item in tree.values()]
    if all(name.isdigit() for name in tree):
        return tuple(items)
    return namedtuple("named", list(tree), rename=True)(*items)
