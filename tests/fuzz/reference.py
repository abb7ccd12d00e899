"""The reference semantics of a module: one program after the other, one element at a time.

`evaluate` walks the IR recursively. A value is a NumPy array of exactly its type's shape, memory is
the arrays that were passed, and an address is looked up in a table of the elements that exist.
Nothing here is shared with the interpreter but the meaning of the less plain elementwise operations
(`OpDef.semantics`, given one program's full arrays).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tile.ir import semantics
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.descriptor_type import Descriptor, Padding
from tile.ir.module import Module
from tile.ir.types import Pointer, Type

WINDOW = 1 << 40
Env = dict[Value, Any]


class Fault(Exception):
    """An access to memory that is not there."""

    def __init__(self, argument: str, offset: int, program: int, lane: tuple[int, ...]) -> None:
        super().__init__(f"{argument} at byte {offset}, program {program}, lane {lane}")
        self.argument = argument
        self.offset = offset
        self.program = program
        self.lane = lane


class OutOfFuel(Exception):
    """The program runs for too long."""


@dataclass
class Buffer:
    """An array, and which byte offsets from its first element are elements."""

    name: str
    array: Any
    coordinates: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.array.ndim == 1 and self.array.strides[0]:
            step, size = self.array.strides[0], self.array.size
            self.coordinates.update(zip(range(0, step * size, step), ((i,) for i in range(size))))
            return
        for index in np.ndindex(self.array.shape):
            offset = sum(i * s for i, s in zip(index, self.array.strides, strict=True))
            self.coordinates[offset] = index

    @property
    def real(self) -> int:
        return int(self.array.__array_interface__["data"][0])


class Memory:
    """Buffers in windows of an address space; buffer k begins at (k + 1) * WINDOW."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []

    def add(self, name: str, array: Any) -> int:
        self.buffers.append(Buffer(name, array))
        return len(self.buffers) * WINDOW

    def find(self, address: int) -> tuple[Buffer, int] | None:
        index = (address + WINDOW // 2) // WINDOW
        if 1 <= index <= len(self.buffers):
            return self.buffers[index - 1], address - index * WINDOW
        return None

    def virtual(self, real: int) -> int:
        for index, buffer in enumerate(self.buffers):
            if real - buffer.real in buffer.coordinates:
                return (index + 1) * WINDOW + real - buffer.real
        return real

    def machine(self, address: int) -> int:
        entry = self.find(address)
        return address if entry is None else entry[0].real + entry[1]


class Evaluator:
    """One run of a kernel."""

    def __init__(
        self, module: Module, grid: tuple[int, int, int], arguments: Sequence[Any], fuel: int
    ) -> None:
        self.module = module
        self.grid = grid
        self.fuel = fuel
        self.memory = Memory()
        self.program = 0
        self.printed: list[tuple[int, str, list[Any]]] = []
        self.parameters: list[Any] = []
        for value, argument in zip(module.kernel.args, arguments, strict=True):
            if isinstance(value.type, Pointer):
                address = self.memory.add(value.name, argument)
                self.parameters.append(np.array(address))
                for index, target in enumerate(getattr(argument, "targets", ())):
                    self.memory.add(f"{value.name}[{index}]", target)
            else:
                self.parameters.append(np.array(argument))

    def run(self) -> None:
        with np.errstate(all="ignore"):
            for self.program in range(math.prod(self.grid)):
                self.function(self.module.kernel, self.parameters)

    def function(self, function: Function, arguments: Sequence[Any]) -> list[Any]:
        return self.block(function.body, dict(zip(function.args, arguments, strict=True)))

    def block(self, block: Block, env: Env) -> list[Any]:
        """Run a block; the operands of its terminator."""
        for op in block:
            operands = [None if v is None else env[v] for v in op.operands]
            if op.defn.terminator:
                return operands
            self.fuel -= 1
            if self.fuel < 0:
                raise OutOfFuel
            results = self.operation(op, operands, env)
            for value, result in zip(op.results, results, strict=True):
                env[value] = result
                if isinstance(value.type, Descriptor):
                    continue
                wanted = semantics.numpy_dtype(value.type.element)
                assert result.dtype == wanted, f"{op} gives {result.dtype}"
                assert result.shape == value.type.shape, f"{op} gives shape {result.shape}"
        raise AssertionError("a block without a terminator")

    def operation(self, op: Operation, operands: list[Any], env: Env) -> list[Any]:
        region = REGIONS.get(op.name)
        if region is not None:
            return [np.asarray(r) for r in region(self, op, operands, env)]
        effect = EFFECTS.get(op.name)
        if effect is not None:
            result = effect(self, op, operands)
            return [] if result is None else [np.asarray(result)]
        direct = DIRECT.get(op.name)
        if direct is not None:
            result = direct(op, *operands)
            results = result if isinstance(result, tuple) else (result,)
            return [np.asarray(r) for r in results]
        return by_semantics(op, operands)

    # -- control flow

    def inside(self, op: Operation, region: int, arguments: Sequence[Any], env: Env) -> list[Any]:
        block = op.regions[region]
        return self.block(block, env | dict(zip(block.args, arguments, strict=True)))

    def if_(self, op: Operation, operands: list[Any], env: Env) -> list[Any]:
        return self.inside(op, 0 if operands[0] else 1, [], env)

    def for_(self, op: Operation, operands: list[Any], env: Env) -> list[Any]:
        lower, upper, step = (int(x) for x in operands[:3])
        carried = operands[3:]
        for index in range(lower, upper, step):
            number = np.array(index, operands[0].dtype)
            carried = self.inside(op, 0, [number, *carried], env)
        return carried

    def while_(self, op: Operation, operands: list[Any], env: Env) -> list[Any]:
        carried = operands
        while self.inside(op, 0, carried, env)[0]:
            self.fuel -= 1
            if self.fuel < 0:
                raise OutOfFuel
            carried = self.inside(op, 1, carried, env)
        return carried

    def combine(self, op: Operation, first: list[Any], second: list[Any], env: Env) -> list[Any]:
        return self.inside(op, 0, [*first, *second], env)

    def reduce_region(self, op: Operation, operands: list[Any], env: Env) -> list[Any]:
        """One after the other from the front."""
        return [rows[-1] for rows in self.running(op, operands, env, reverse=False)]

    def scan_region(self, op: Operation, operands: list[Any], env: Env) -> list[Any]:
        totals = self.running(op, operands, env, op["reverse"])
        step = -1 if op["reverse"] else 1
        return [np.moveaxis(t[::step], 0, op["axis"]).copy() for t in totals]

    def running(self, op: Operation, xs: list[Any], env: Env, reverse: bool) -> list[Any]:
        """Running totals along the axis, which comes first, from the end that is read first."""
        rows = [lines(x, op["axis"])[:: -1 if reverse else 1] for x in xs]
        totals = [r.copy() for r in rows]
        for index in range(1, len(rows[0])):
            for place in np.ndindex(rows[0].shape[1:]):
                at, before = (index, *place), (index - 1, *place)
                first = [np.asarray(t[before]) for t in totals]
                group = self.combine(op, first, [np.asarray(r[at]) for r in rows], env)
                for total, value in zip(totals, group, strict=True):
                    total[at] = value
        return totals

    def call(self, op: Operation, operands: list[Any], env: Env) -> list[Any]:
        return self.function(self.module[op["callee"]], operands)

    # -- memory

    def access(self, address: int, dtype: Any, lane: tuple[int, ...]) -> tuple[Any, Any]:
        """The array and index of an element; raises `Fault`."""
        entry = self.memory.find(address)
        if entry is None:
            raise Fault("", address, self.program, lane)
        buffer, offset = entry
        if offset not in buffer.coordinates or buffer.array.itemsize != dtype.itemsize:
            raise Fault(buffer.name, offset, self.program, lane)
        return buffer.array, buffer.coordinates[offset]

    def read(self, address: int, ty: Any, lane: tuple[int, ...]) -> Any:
        dtype = semantics.numpy_dtype(ty)
        array, index = self.access(address, dtype, lane)
        value = array[index].view(dtype)
        return np.int64(self.memory.virtual(int(value))) if isinstance(ty, Pointer) else value

    def write(self, address: int, value: Any, ty: Any, lane: tuple[int, ...]) -> None:
        dtype = semantics.numpy_dtype(ty)
        array, index = self.access(address, dtype, lane)
        if isinstance(ty, Pointer):
            value = np.int64(self.memory.machine(int(value)))
        array[index] = value.view(array.dtype)

    def load(self, op: Operation, operands: list[Any]) -> Any:
        pointers, mask, other = operands
        element = op.result.type.element
        result = np.zeros(pointers.shape, semantics.numpy_dtype(element))
        for lane in np.ndindex(pointers.shape):
            if mask is None or mask[lane]:
                result[lane] = self.read(int(pointers[lane]), element, lane)
            elif other is not None:
                result[lane] = other[lane]
        return result

    def store(self, op: Operation, operands: list[Any]) -> None:
        pointers, value, mask = operands
        for lane in np.ndindex(pointers.shape):
            if mask is None or mask[lane]:
                self.write(int(pointers[lane]), value[lane], op.inputs[1].type.element, lane)

    def atomic_rmw(self, op: Operation, operands: list[Any]) -> Any:
        pointers, value, mask = operands
        element = op.result.type.element
        result = np.zeros(pointers.shape, value.dtype)
        for lane in np.ndindex(pointers.shape):
            if mask is None or mask[lane]:
                old = result[lane] = self.read(int(pointers[lane]), element, lane)
                new = UPDATES[op["kind"]](np.asarray(old), np.asarray(value[lane]))
                self.write(int(pointers[lane]), np.asarray(new)[()], element, lane)
        return result

    def atomic_cas(self, op: Operation, operands: list[Any]) -> Any:
        pointers, expected, value = operands
        element = op.result.type.element
        result = np.zeros(pointers.shape, value.dtype)
        for lane in np.ndindex(pointers.shape):
            old = result[lane] = self.read(int(pointers[lane]), element, lane)
            if old.tobytes() == expected[lane].tobytes():
                self.write(int(pointers[lane]), value[lane], element, lane)
        return result

    def make_tensor_descriptor(self, op: Operation, operands: list[Any]) -> Any:
        return np.array([int(part) for part in operands], np.int64)

    def descriptor_addresses(
        self, desc: Any, offsets: Sequence[Any], ty: Descriptor
    ) -> dict[tuple[int, ...], int]:
        """The addresses of the elements of a descriptor block that are inside its array, by their index."""
        rank = len(ty.dims)
        base, *sizes = (int(part) for part in desc)
        extents, strides = sizes[:rank], [*sizes[rank:], 1]
        inside = {}
        for lane in np.ndindex(ty.dims):
            index = [int(start) + i for start, i in zip(offsets, lane, strict=True)]
            if all(0 <= i < extent for i, extent in zip(index, extents, strict=True)):
                steps = sum(i * stride for i, stride in zip(index, strides, strict=True))
                inside[lane] = base + steps * ty.of.itemsize
        return inside

    def descriptor_load(self, op: Operation, operands: list[Any]) -> Any:
        desc, *offsets = operands
        ty = op.inputs[0].type
        assert isinstance(ty, Descriptor)
        outside = math.nan if ty.padding is Padding.NAN else 0
        result = np.full(ty.dims, outside).astype(semantics.numpy_dtype(ty.of))
        for lane, address in self.descriptor_addresses(desc, offsets, ty).items():
            result[lane] = self.read(address, ty.of, lane)
        return result

    def descriptor_store(self, op: Operation, operands: list[Any]) -> None:
        desc, value, *offsets = operands
        ty = op.inputs[0].type
        assert isinstance(ty, Descriptor)
        for lane, address in self.descriptor_addresses(desc, offsets, ty).items():
            self.write(address, value[lane], ty.of, lane)

    # -- the rest

    def program_id(self, op: Operation, operands: list[Any]) -> Any:
        x, y, _ = self.grid
        place = (self.program % x, self.program // x % y, self.program // (x * y))
        return np.int32(place[op["axis"]])

    def num_programs(self, op: Operation, operands: list[Any]) -> Any:
        return np.int32(self.grid[op["axis"]])

    def device_print(self, op: Operation, operands: list[Any]) -> None:
        self.printed.append((self.program, op["prefix"], operands))

    def device_assert(self, op: Operation, operands: list[Any]) -> None:
        condition, mask = operands
        assert np.all(condition if mask is None else condition | ~mask), op["message"]

    def assume(self, op: Operation, operands: list[Any]) -> None:
        assert operands[0], "an assumption is false"

    def barrier(self, op: Operation, operands: list[Any]) -> None:
        pass


REGIONS: dict[str, Callable[..., list[Any]]] = {
    "if": Evaluator.if_,
    "for": Evaluator.for_,
    "while": Evaluator.while_,
    "call": Evaluator.call,
    "reduce_region": Evaluator.reduce_region,
    "scan_region": Evaluator.scan_region,
}
EFFECTS: dict[str, Callable[..., Any]] = {
    name: getattr(Evaluator, name)
    for name in (
        "load",
        "store",
        "atomic_rmw",
        "atomic_cas",
        "make_tensor_descriptor",
        "descriptor_load",
        "descriptor_store",
        "program_id",
        "num_programs",
        "device_print",
        "device_assert",
        "assume",
        "barrier",
    )
}


def by_semantics(op: Operation, operands: list[Any]) -> list[Any]:
    """The declared meaning, on one program's full arrays."""
    assert op.defn.semantics is not None, f"{op.name} has no meaning"
    result = op.defn.semantics(*(x[None] for x in operands), **op.attributes)
    results = result if isinstance(result, tuple) else (result,)
    return [
        np.broadcast_to(r, (1, *value.type.shape))[0].copy()
        for r, value in zip(results, op.results, strict=True)
    ]


# -- elementwise operations, as NumPy or Python has them


def wrapped(number: int, dtype: Any) -> int:
    """The integer modulo 2 to the width, in the range of `dtype`."""
    if dtype == np.bool_:
        return number & 1
    info = np.iinfo(dtype)
    return (number - int(info.min)) % (1 << info.bits) + int(info.min)


def on_integers(function: Callable[..., int]) -> Callable[..., Any]:
    """A function of Python integers, element by element, wrapped."""

    def apply(*arrays: Any) -> Any:
        dtype = arrays[0].dtype
        columns = zip(*(a.ravel().tolist() for a in arrays), strict=True)
        values = [wrapped(int(function(*row)), dtype) for row in columns]
        return np.array(values, dtype).reshape(arrays[0].shape)

    return apply


def on_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function; of 16-bit floats computed in f32 and rounded once."""

    def apply(*arrays: Any) -> Any:
        dtype = arrays[0].dtype
        if dtype.itemsize >= 4:
            return function(*arrays)
        return np.asarray(function(*(a.astype(np.float32) for a in arrays))).astype(dtype)

    return apply


def is_integer(array: Any) -> bool:
    return array.dtype.kind in "iub"


def number(of_integers: Callable[..., int], of_floats: Callable[..., Any]) -> Callable[..., Any]:
    """An operation from what it does to Python integers and to NumPy's floats."""
    integers, floats = on_integers(of_integers), on_floats(of_floats)
    return lambda *arrays: (integers if is_integer(arrays[0]) else floats)(*arrays)


def quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else 0


def shift_left(x: Any, y: Any) -> Any:
    bits = 8 * x.dtype.itemsize
    return on_integers(lambda a, n: a << n if 0 <= n < bits else 0)(x, y)


def shift_right(x: Any, y: Any) -> Any:
    bits = 8 * x.dtype.itemsize
    return on_integers(lambda a, n: a >> (n if 0 <= n < bits else bits))(x, y)


add = number(operator.add, np.add)
mul = number(operator.mul, np.multiply)
least = number(min, np.fmin)
greatest = number(max, np.fmax)
both = on_integers(operator.and_)
either = on_integers(operator.or_)
differ = on_integers(operator.xor)
least_or_nan = number(min, np.minimum)
greatest_or_nan = number(max, np.maximum)

COMPARE = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
UPDATES: dict[str, Callable[..., Any]] = {
    "add": add,
    "max": greatest,
    "min": least,
    "and": both,
    "or": either,
    "xor": differ,
    "xchg": lambda old, new: new,
}
# (passing over NaNs, propagating them)
COMBINE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (add, add),
    "prod": (mul, mul),
    "max": (greatest, greatest_or_nan),
    "min": (least, least_or_nan),
    "and": (both, both),
    "or": (either, either),
    "xor": (differ, differ),
}


def compare(op: Operation, x: Any, y: Any) -> Any:
    narrow = x.dtype.itemsize < 4 and not is_integer(x)
    a, b = (x.astype(np.float32), y.astype(np.float32)) if narrow else (x, y)
    return np.asarray(COMPARE[op["predicate"]](a, b))


def integer_cast(op: Operation, x: Any) -> Any:
    """Integers wrap and anything but zero is true; other conversions are left to the meaning."""
    to = semantics.numpy_dtype(op["to"])
    if is_integer(x) and to.kind in "iu":
        values = [wrapped(int(v), to) for v in x.ravel().tolist()]
        return np.array(values, to).reshape(x.shape)
    if is_integer(x) and to.kind == "b":
        return x != 0
    return by_semantics(op, [x])[0]


def constant(op: Operation) -> Any:
    ty: Type = op.result.type
    if ty.element.is_floating():
        return by_semantics(op, [])[0]
    return np.full(ty.shape, op["value"], semantics.numpy_dtype(ty.element))


def add_offset(op: Operation, pointers: Any, offset: Any) -> Any:
    width = op["stride"]
    moved = [
        wrapped(int(p) + wrapped(int(o), np.int64) * width, np.int64)
        for p, o in zip(pointers.ravel().tolist(), offset.ravel().tolist(), strict=True)
    ]
    return np.array(moved, np.int64).reshape(pointers.shape)


# -- along an axis


def lines(x: Any, axis: int) -> Any:
    """The array with an axis brought to the front."""
    return np.moveaxis(x, axis, 0)


def reduce(op: Operation, x: Any) -> Any:
    combine = COMBINE[op["kind"]][op["propagate_nan"]]
    if exact(x, op["kind"]):
        rows = lines(x, op["axis"])
        total = rows[0]
        for row in rows[1:]:
            total = combine(np.asarray(total), np.asarray(row))
        return total
    return by_semantics(op, [x])[0]


def scan(op: Operation, x: Any) -> Any:
    combine = COMBINE[op["kind"]][0]
    if not exact(x, op["kind"]):
        return by_semantics(op, [x])[0]
    rows = lines(x, op["axis"])[:: -1 if op["reverse"] else 1]
    totals = [rows[0]]
    for row in rows[1:]:
        totals.append(combine(np.asarray(totals[-1]), np.asarray(row)))
    return np.moveaxis(np.stack(totals[:: -1 if op["reverse"] else 1]), 0, op["axis"]).copy()


def exact(x: Any, kind: str) -> bool:
    """Return True if results do not depend on the order of combination."""
    return is_integer(x) or kind in ("max", "min")


def arg_reduce(op: Operation, x: Any) -> Any:
    rows = lines(x, op["axis"])
    best, where = rows[0].copy(), np.zeros(rows[0].shape, np.int32)
    wide = best.astype(np.float32) if x.dtype.itemsize < 4 and not is_integer(x) else best
    better = operator.gt if op["kind"] == "max" else operator.lt
    for index in range(1, len(rows)):
        row = np.asarray(rows[index])
        seen = row.astype(wide.dtype)
        take = better(seen, wide)
        if not op["tie_break_left"]:
            take |= seen == wide
        take |= np.isnan(wide) & ~np.isnan(seen) if not is_integer(x) else np.zeros_like(take)
        wide = np.where(take, seen, wide)
        where = np.where(take, np.int32(index), where)
    return wide.astype(x.dtype), np.asarray(where, np.int32)


def gather(op: Operation, x: Any, index: Any) -> Any:
    """Positions outside, which are undefined, are not for this evaluator."""
    result = np.empty(index.shape, x.dtype)
    axis = op["axis"] + x.ndim
    for place in np.ndindex(index.shape):
        position = int(index[place])
        assert 0 <= position < x.shape[axis], "gather out of range is undefined"
        result[place] = x[(*place[:axis], position, *place[axis + 1 :])]
    return result


def scatter(op: Operation, x: Any, index: Any) -> Any:
    result = np.empty_like(x)
    axis = op["axis"] + x.ndim
    for place in np.ndindex(index.shape):
        result[(*place[:axis], int(index[place]), *place[axis + 1 :])] = x[place]
    return result


def rank(op: Operation, x: Any) -> Any:
    order = sorted(range(len(x)), key=lambda index: int(x[index]))
    result = np.empty(len(x), np.int32)
    for position, index in enumerate(order):
        assert 0 <= x[index] < op["bins"], "rank out of range is undefined"
        result[index] = position
    return result


def histogram(op: Operation, x: Any, mask: Any) -> Any:
    counts = np.zeros(op["bins"], np.int32)
    for index, value in enumerate(x.tolist()):
        if (mask is None or mask[index]) and 0 <= value < op["bins"]:
            counts[value] += 1
    return counts


def sort(op: Operation, x: Any) -> Any:
    """By value, a NaN above all."""
    rows = lines(x, op["axis"])
    result = rows.copy()
    for place in np.ndindex(rows.shape[1:]):
        line = [rows[(index, *place)] for index in range(len(rows))]
        line.sort(key=lambda v: (bool(v != v), float(v) if v.dtype.kind not in "iub" else int(v)))
        for index, value in enumerate(reversed(line) if op["descending"] else line):
            result[(index, *place)] = value
    return np.moveaxis(result[: op["count"]], 0, op["axis"]).copy()


DIRECT: dict[str, Callable[..., Any]] = {
    "const": constant,
    "add": lambda op, x, y: add(x, y),
    "sub": lambda op, x, y: number(operator.sub, np.subtract)(x, y),
    "mul": lambda op, x, y: mul(x, y),
    "div": lambda op, x, y: number(quotient, np.divide)(x, y),
    "div_rn": lambda op, x, y: on_floats(np.divide)(x, y),
    "rem": lambda op, x, y: number(lambda a, b: a - quotient(a, b) * b if b else 0, np.fmod)(x, y),
    "neg": lambda op, x: number(operator.neg, np.negative)(x),
    "abs": lambda op, x: number(abs, np.abs)(x),
    "and": lambda op, x, y: both(x, y),
    "or": lambda op, x, y: either(x, y),
    "xor": lambda op, x, y: differ(x, y),
    "not": lambda op, x: on_integers(lambda number: -1 - number)(x),
    "shl": lambda op, x, y: shift_left(x, y),
    "shr": lambda op, x, y: shift_right(x, y),
    "mulhi": lambda op, x, y: on_integers(lambda a, b: a * b >> 8 * x.dtype.itemsize)(x, y),
    "min": lambda op, x, y: COMBINE["min"][op["propagate_nan"]](x, y),
    "max": lambda op, x, y: COMBINE["max"][op["propagate_nan"]](x, y),
    "cmp": compare,
    "select": lambda op, c, x, y: np.where(c, x, y),
    "cast": integer_cast,
    "hint": lambda op, x: x,
    "addptr": add_offset,
    "arange": lambda op: np.arange(op["start"], op["end"], dtype=np.int32),
    "splat": lambda op, x: np.full(op["shape"], x),
    "broadcast": lambda op, x: np.broadcast_to(x, op["shape"]).copy(),
    "expand_dims": lambda op, x: np.expand_dims(x, op["axis"]),
    "reshape": lambda op, x: x.reshape(op["shape"]),
    "trans": lambda op, x: x.transpose(op["order"]).copy(),
    "flip": lambda op, x: np.flip(x, op["axis"]).copy(),
    "join": lambda op, a, b: np.stack([a, b], -1),
    "split": lambda op, x: (x[..., 0].copy(), x[..., 1].copy()),
    "gather": gather,
    "scatter": scatter,
    "rank": rank,
    "histogram": histogram,
    "sort": sort,
    "reduce": reduce,
    "scan": scan,
    "arg_reduce": arg_reduce,
}


def evaluate(
    module: Module,
    grid: tuple[int, int, int],
    arguments: Sequence[Any],
    *,
    fuel: int = 1_000_000,
) -> Evaluator:
    """Run a kernel over its grid, in order of program, on the arrays themselves.

    Raises `Fault` for an access outside the arrays and `OutOfFuel` after `fuel` operations.
    """
    evaluator = Evaluator(module, grid, arguments, fuel)
    evaluator.run()
    return evaluator
