"""Variables of programs as NumPy."""

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
    """A name of the function has no value where the program is; the message says why."""


@dataclass(frozen=True)
class Known:
    """A thing that is known while the kernel is compiled and is no number or text."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Undefined:
    """Elements of a value that nobody defined, and what they come of."""

    where: Array
    text: str
    loc: Loc | None


@dataclass(frozen=True, eq=False)
class Leaf:
    """A variable, or an item of a tuple, with the values that are its own and their registers."""

    variable: Variable
    values: Sequence[Value]
    registers: Sequence[int]

    @property
    def type(self) -> Type | None:
        """The type of its only value; None for a descriptor, and for what is known."""
        return self.values[0].type if len(self.values) == 1 else None


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads the registers of a call, for one program, the `index`-th of its wave, or for all."""

    wave: Wave
    activation: Activation
    index: int

    def held(self, register: int) -> Held:
        value = self.activation.read(register)
        assert value is not None
        return value

    def among_all(self, leaf: Leaf) -> Array:
        """A scalar in all programs of the wave; of extent 1 if it is the same in all."""
        return full(bare(self.held(leaf.registers[0])), ())

    def value(self, leaf: Leaf) -> Any:
        """What a leaf is in the program: NumPy's, a pointer, a descriptor, or what is known.

        Raises `MissingError`.
        """
        variable = leaf.variable
        if variable.missing is not None:
            raise MissingError(f"`{variable.name}` has no value here: {variable.missing}")
        if variable.known is not None:
            return _known(variable.known)
        if len(leaf.values) > 1:
            return self.descriptor(leaf)
        return self.one(leaf.values[0].type, leaf.registers[0])

    def one(self, ty: Type, register: int) -> Any:
        """A scalar or a tile; elements that nobody defined are masked."""
        array = self.own(full(bare(self.held(register)), ty.shape))
        element = ty.element
        if isinstance(element, Pointer):
            return Pointers(self.wave.launch.memory, array, element.pointee)
        undefined = self.undefined(ty, register)
        if undefined is not None:
            return np.ma.masked_array(array, undefined.where)
        return array if ty.shape else array[()]

    def undefined(self, ty: Type, register: int) -> Undefined | None:
        """The elements of a value that nobody defined, if there are any."""
        flag = flag_of(self.held(register), Mark.UNDEFINED)
        if flag is None:
            return None
        truths = flag.where
        where = self.own(np.broadcast_to(truths, (truths.shape[0], *ty.shape)))
        return Undefined(where, flag.cause.text, flag.cause.loc) if where.any() else None

    def own(self, array: Array) -> Array:
        """The program's part of an array over the programs of the wave, copied."""
        return np.array(array[self.index if array.shape[0] > 1 else 0])

    def descriptor(self, leaf: Leaf) -> DescriptorValue:
        pairs = zip(leaf.values, leaf.registers, strict=True)
        base, *numbers = (self.one(value.type, register) for value, register in pairs)
        rank = len(leaf.values) // 2
        sizes = [int(number) for number in numbers]
        return DescriptorValue(base, tuple(sizes[:rank]), (*sizes[rank:], 1))


def _known(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return Known(text)


Tree = Leaf | dict[str, Any]  # of more such, by the names of a tuple's items


def trees(leaves: Sequence[Leaf]) -> dict[str, Tree]:
    """The variables by name, the items of tuples under the tuple's."""
    found: dict[str, Tree] = {}
    for leaf in leaves:
        *outer, last = leaf.variable.name.split(".")
        at: dict[str, Any] = found
        for part in outer:
            at = at.setdefault(part, {})
        at[last] = leaf
    return found


def whole(tree: Tree, reader: Reader) -> Any:
    """The value of a variable in a program, tuples put together. Raises `MissingError`."""
    if isinstance(tree, Leaf):
        return reader.value(tree)
    items = [whole(item, reader) for item in tree.values()]
    if all(name.isdigit() for name in tree):
        return tuple(items)
    return namedtuple("named", list(tree), rename=True)(*items)
