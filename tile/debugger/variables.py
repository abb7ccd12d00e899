"""Variables of programs as NumPy values, and values as text.

An address is shown as users know it: an argument plus an index.
"""

from __future__ import annotations

import ast
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tile.backends.interp.program_batch import Activation, ProgramBatch
from tile.backends.interp.resolved_access import Buffer, Elements
from tile.backends.interp.sanitizer.poison import PoisonKind, plain_value, poison_of
from tile.backends.interp.values import Array, RegisterValue, full
from tile.backends.interp.virtual_memory import LOWEST, WINDOW_BITS, Memory
from tile.debugger.source_files import display_path
from tile.ir.core import Value
from tile.ir.debug_info import Variable
from tile.ir.semantics import printable
from tile.ir.types import Pointer, Scalar, Type
from tile.location import Loc


@dataclass(frozen=True, eq=False)
class Pointers:
    """A pointer, or a tile of pointers, in a variable of a program.

    `p + i` and `p - i` move by elements, as in a kernel, and `p[k]` selects from a tile.

    - `index`: the offset of each pointer, in elements, from the start of the array that it points
      into.
    - `inside`: True for each pointer to an element of the array or view that was passed.
    - `load()`: the elements that memory holds now; those out of bounds are masked.
    - `array`: the array itself; for pointers into several arrays, the first of these.
    """

    memory: Memory
    addresses: Array
    pointee: Scalar | Pointer

    @property
    def shape(self) -> tuple[int, ...]:
        return self.addresses.shape

    @property
    def buffers(self) -> list[Buffer | None]:
        """The arrays whose windows contain the addresses, in order; None stands for no window."""
        candidates: list[Buffer | None] = [*self.memory.buffers, None]
        return [buffer for buffer in candidates if self.within(buffer).any()]

    def within(self, buffer: Buffer | None) -> Array:
        """Return True for each address in the window of an array, or, for None, in no window."""
        numbers = (self.addresses - LOWEST) >> WINDOW_BITS
        if buffer is None:
            return np.asarray((numbers < 0) | (numbers >= len(self.memory.buffers)))
        return np.asarray(numbers == (buffer.origin - LOWEST) >> WINDOW_BITS)

    @property
    def index(self) -> Array:
        size = self.pointee.itemsize
        index = np.zeros(self.shape, np.int64)
        for buffer, here in self.memory.by_buffer(self.addresses):
            index[here] = (self.addresses[here] - buffer.origin) // size
        return index

    @property
    def inside(self) -> Array:
        return self.memory.valid(self.addresses, self.pointee.itemsize)

    @property
    def array(self) -> Array | None:
        buffer = self.buffers[0]
        return None if buffer is None else buffer.array.view(np.ndarray)

    def load(self) -> Array:
        inside = self.inside
        programs, active = np.atleast_1d(self.addresses)[None], np.atleast_1d(inside)[None]
        access = self.memory.resolve(programs, active, Elements(self.pointee, programs.shape[1:]))
        values = printable(
            np.array(np.broadcast_to(access.read(None), programs.shape).reshape(self.shape))
        )
        if inside.all():
            return values
        return np.ma.masked_array(values, ~inside)

    def _moved(self, by: Any, sign: int) -> Pointers:
        steps = np.asarray(by)
        if steps.dtype.kind not in "iu":
            raise TypeError(f"a pointer moves by integers, not by {steps.dtype}")
        moved = self.addresses + sign * steps.astype(np.int64) * self.pointee.itemsize
        return Pointers(self.memory, np.asarray(moved), self.pointee)

    def __add__(self, by: Any) -> Pointers:
        return self._moved(by, 1)

    __radd__ = __add__

    def __sub__(self, by: Any) -> Pointers:
        return self._moved(by, -1)

    def __getitem__(self, key: Any) -> Pointers:
        return Pointers(self.memory, np.asarray(self.addresses[key]), self.pointee)

    # NumPy leaves `array + pointers` to `__radd__`.
    __array_ufunc__ = None


@dataclass(frozen=True)
class DescriptorValue:
    """The value of a tensor descriptor: base pointer, shape, strides in elements."""

    base: Pointers
    shape: tuple[int, ...]
    strides: tuple[int, ...]


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

    batch: ProgramBatch
    activation: Activation
    index: int

    def held(self, register: int) -> RegisterValue:
        value = self.activation.read(register)
        assert value is not None
        return value

    def among_all(self, leaf: Leaf) -> Array:
        """Return a scalar for all programs of the batch, with extent 1 if it is equal in all."""
        return full(plain_value(self.held(leaf.registers[0])), ())

    def value(self, leaf: Leaf) -> Any:
        """Return the value of a leaf: NumPy's, a pointer, a descriptor, or a compile-time value.

        Raises `MissingError`.
        """
        variable = leaf.variable
        if variable.reason is not None:
            raise MissingError(f"`{variable.name}` has no value here: {variable.reason}")
        if variable.text is not None:
            return _compile_time_value(variable.text)
        if len(leaf.values) > 1:
            return self.descriptor(leaf)
        return self.one(leaf.values[0].type, leaf.registers[0])

    def one(self, ty: Type, register: int) -> Any:
        """Return a scalar or a tile; undefined elements are masked."""
        array = printable(self.own(full(plain_value(self.held(register)), ty.shape)))
        element = ty.element
        if isinstance(element, Pointer):
            return Pointers(self.batch.launch.memory, array, element.pointee)
        undefined = self.undefined(ty, register)
        if undefined is not None:
            return np.ma.masked_array(array, undefined.where)
        return array if ty.shape else array[()]

    def undefined(self, ty: Type, register: int) -> Undefined | None:
        """Return the undefined elements of a value; None if there are none."""
        flag = poison_of(self.held(register), PoisonKind.UNDEFINED)
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


MASKED = "--"
OUTSIDE = "!"
ELSEWHERE = "."  # a pointer into an array other than that of its line
ELIDED = 1000  # `p` elides the middle of tiles with more elements, as NumPy does


def show(value: Any, undefined: Undefined | None = None, *, everything: bool = False) -> str:
    """Return a value as text in full: type and shape of a tile, then its elements.

    Undefined elements are shown as `--`, out-of-bounds pointers with `!`.
    """
    limit = sys.maxsize if everything else ELIDED
    if isinstance(value, Pointers):
        return "\n".join(_pointers(value, limit))
    if isinstance(value, DescriptorValue):
        base = next(_arithmetic(value.base, limit))
        return f"descriptor of {base}: shape {value.shape}, strides {value.strides}"
    if isinstance(value, np.ndarray) and value.ndim:
        lines = [f"{value.dtype}, shape {value.shape}", _elements(value, limit)]
    elif isinstance(value, np.ndarray | np.generic):
        lines = [_number(value)]
    elif isinstance(value, tuple):
        lines = [_tuple(value)]
    else:
        lines = [repr(value)]
    if undefined is not None:
        lines.append(_reason(undefined))
    return "\n".join(lines)


def brief(value: Any) -> str:
    """Return a value as one line, for lists of arguments."""
    if isinstance(value, Pointers) and not value.shape:
        return next(_arithmetic(value, ELIDED))
    if isinstance(value, Pointers):
        return f"<pointers to {value.pointee}, shape {value.shape}>"
    if isinstance(value, np.ndarray) and value.ndim:
        return f"<{value.dtype}, shape {value.shape}>"
    return show(value)


def kind(value: Any) -> str:
    """Return a description of a value's kind."""
    if isinstance(value, Pointers):
        return _shaped("pointer", value.shape, f"to {value.pointee}")
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, str | bytes):
        return _shaped("scalar", value.shape, f"of {value.dtype}")
    if isinstance(value, DescriptorValue):
        return f"descriptor of {value.base.pointee}, shape {value.shape}"
    text = value if isinstance(value, CompileTimeValue) else type(value).__name__
    return f"known while the kernel is compiled: {text}"


def _shaped(scalar: str, shape: tuple[int, ...], element: str) -> str:
    tile = {"pointer": "tile of pointers", "scalar": "tile"}[scalar]
    return f"{tile} {element}, shape {shape}" if shape else f"{scalar} {element}"


def _tuple(value: tuple[Any, ...]) -> str:
    inside = ", ".join(map(brief, value))
    return f"({inside},)" if len(value) == 1 else f"({inside})"


def _number(value: Any) -> str:
    return MASKED if np.ma.is_masked(value) else str(value[()])


def _elements(value: Array, limit: int) -> str:
    masked = np.ma.getmaskarray(value)
    if not masked.any():
        return np.array2string(np.ma.getdata(value), threshold=limit)
    # NumPy aligns numbers, but not with the text of masked elements; align the texts instead.
    data = np.ma.getdata(value)
    texts = [np.array2string(element) for element in data[~masked]]
    width = max([len(MASKED), *map(len, texts)])
    return _texts(data, lambda i: MASKED if masked[i] else np.array2string(data[i]), width, limit)


def _texts(data: Array, text: Callable[[Any], str], width: int, limit: int) -> str:
    """Return elements as texts of one width; `text` takes an index."""
    numbers = np.arange(data.size).reshape(data.shape)
    formatter: Any = {"all": lambda n: text(np.unravel_index(int(n), data.shape)).rjust(width)}
    return np.array2string(numbers, threshold=limit, formatter=formatter)


def _reason(undefined: Undefined) -> str:
    count, size = int(undefined.where.sum()), undefined.where.size
    some = f" ({count} of {size} elements)" if size > 1 else ""
    loc = undefined.loc
    location = f", at {display_path(loc.file)}:{loc.line}" if loc is not None else ""
    return f"{MASKED} is undefined{some}: {undefined.text}{location}"


def _pointers(value: Pointers, limit: int) -> Iterator[str]:
    if value.shape:
        yield f"pointers to {value.pointee}, shape {value.shape}"
    yield from _arithmetic(value, limit)
    inside = value.inside
    if inside.all():
        return
    for buffer in value.buffers:
        if buffer is None:
            yield f"{OUTSIDE} is in no array of this launch"
        elif not inside[value.within(buffer)].all():
            array = buffer.array
            yield f"{OUTSIDE} is outside `{buffer.name}`, {array.dtype}, shape {array.shape}"


def _arithmetic(value: Pointers, limit: int) -> Iterator[str]:
    """Yield `x_ptr + [0 1 2]` for each array that the pointers point into."""
    index, inside = value.index, value.inside
    for buffer in value.buffers:
        name = "(no array)" if buffer is None else buffer.name
        here = value.within(buffer)
        numbers = value.addresses if buffer is None else index
        if not value.shape:
            yield f"{name} + {int(numbers)}{'' if inside else OUTSIDE}"
            continue
        suffix = np.where(inside, "" if inside.all() else " ", OUTSIDE)
        texts = np.where(here, np.char.add(numbers.astype(str), suffix), ELSEWHERE)
        width = max(len(str(text)) for text in texts.flat)
        yield f"{name} + {_texts(texts, partial(_text, texts), width, limit)}"


def _text(texts: Array, index: Any) -> str:
    return str(texts[index])
