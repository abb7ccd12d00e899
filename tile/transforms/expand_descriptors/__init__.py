"""Descriptors taken apart, for machines that copy no boxes by themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tile.analysis.launch_values import launch_value
from tile.ir.builder import Builder
from tile.ir.core import Argument, Block, Function, Module, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith, control, descriptor, memory
from tile.ir.ops.memory import Order
from tile.ir.passes import module_pass
from tile.ir.types import Descriptor, Padding, Type
from tile.transforms.canonicalize import canonicalize
from tile.transforms.cse import cse
from tile.transforms.dce import dce
from tile.transforms.expand_descriptors.boxes import Along, Parts, address, along
from tile.transforms.licm import licm


@module_pass("expand-descriptors")
def expand_descriptors(module: Module, *, simplify: bool = True, boxes: bool = False) -> None:
    """Make descriptors pointers, extents and strides, and accesses of boxes masked accesses.

    Descriptors that go through loops, branches and calls become as many values as they are made of.
    That the array's start and its strides are multiples of 16 bytes is said by hints. What comes of
    it is simplified, unless `simplify` is false: what is the same in every round leaves its loop.
    With `boxes`, pointers say which box they are of, where the array is known before the kernel
    runs (`box_pointers`).

        %d = make_descriptor %p, %n {block = (8)} : desc<8xf32>
        %x = descriptor_load %d, %i : tile<8xf32>

    becomes, with `%j` the indices as unsigned numbers, in 64 bits as `%w`:

        %b = hint %p {divisible = (16)} : ptr<f32>
        %q = addptr %b, %w {stride = 4} : ptr<f32>
        ...
        %m = cmp %j, %limit {predicate = lt} : tile<8xi1>
        %x = load %pointers, %m, %zero : tile<8xf32>
    """
    values = (
        *(value for function in module for value in function.args),
        *(value for op in module.walk() for value in op.results),
    )
    if not any(isinstance(value.type, Descriptor) for value in values):
        return
    for function in module:
        _Expansion(function, boxes and function.kernel).run()
    if simplify:
        for clean in (canonicalize, cse, licm, dce):
            clean(module)


class _Expansion:
    """Takes the descriptors of one function apart."""

    def __init__(self, function: Function, boxes: bool) -> None:
        self.function = function
        self.boxes = boxes
        self.parts: dict[Value, Parts] = {}
        self.replaced: list[Operation] = []  # in program order; users come later

    def run(self) -> None:
        function = self.function
        function.result_types = _flat_types(function.result_types)
        self.parameters()
        self.block(function.body)
        for op in reversed(self.replaced):
            op.erase()

    def parameters(self) -> None:
        """Give the function parameters for the parts of its descriptors."""
        function = self.function
        known = dict(zip(function.args, function.arguments, strict=True))
        function.body.args = self.arguments(function.body)
        function.arguments = [known.get(value, Argument()) for value in function.args]
        assert function.body.first is not None
        build = Builder(function.body, function.body.first, function.loc)
        for value, parts in list(self.parts.items()):
            self.parts[value] = _promised(build, parts)

    def arguments(self, block: Block) -> list[Value]:
        """The arguments of a block with those of descriptors' parts in their places."""
        found: list[Value] = []
        for value in block.args:
            if not isinstance(value.type, Descriptor):
                found.append(value)
                continue
            parts = [Value(ty, block, 0) for ty in value.type.parts]
            found.extend(parts)
            self.bind(value, parts)
        for index, value in enumerate(found):
            value.index = index
        return found

    def bind(self, value: Value, parts: Sequence[Value]) -> None:
        """Let a descriptor be made of these."""
        assert isinstance(value.type, Descriptor)
        self.parts[value] = Parts(value.type, parts)
        for name, part in zip(_names(value), parts, strict=True):
            part.name = part.name or name

    def block(self, block: Block) -> None:
        for op in block:
            rule = _RULES.get(op.defn)
            if not any(isinstance(value.type, Descriptor) for value in (*op.inputs, *op.results)):
                for region in op.regions:
                    self.block(region)
            elif rule is not None:
                rule(self, op, Builder.before(op))
                self.replaced.append(op)
            else:
                self.rebuild(op)

    def rebuild(self, op: Operation) -> None:
        """Put an operation of control flow in place of one that passes descriptors on."""
        assert op.block is not None
        attributes = dict(op.attributes)
        if op.defn is control.call:
            attributes["results"] = _flat_types(attributes["results"])
        regions, op.regions = op.regions, []
        types = _flat_types([value.type for value in op.results])
        new = Operation(op.defn, self.flat(op.inputs), attributes, regions, types, op.loc)
        op.block.insert(new, op)
        results = iter(new.results)
        for value in op.results:
            if isinstance(value.type, Descriptor):
                self.bind(value, [next(results) for _ in value.type.parts])
                if op.defn is control.call:
                    self.parts[value] = _promised(Builder.before(op), self.parts[value])
            else:
                value.replace_by(next(results))
        for region in regions:
            region.args = self.arguments(region)
            self.block(region)
        if op.defn.terminator:
            op.erase()
        else:
            self.replaced.append(op)

    def flat(self, values: Sequence[Value]) -> list[Value]:
        """Values with descriptors' parts in their places."""
        return [
            part
            for value in values
            for part in (self.parts[value].values if value in self.parts else (value,))
        ]

    # -- operations on descriptors

    def poison(self, op: Operation, build: Builder) -> None:
        assert isinstance(op.result.type, Descriptor)
        self.bind(op.result, [build(arith.poison, result=ty) for ty in op.result.type.parts])

    def make(self, op: Operation, build: Builder) -> None:
        self.bind(op.result, op.inputs)
        self.parts[op.result] = _promised(build, self.parts[op.result])

    def extent(self, op: Operation, build: Builder) -> None:
        op.result.replace_by(self.of(op).extent(op["axis"]))

    def stride(self, op: Operation, build: Builder) -> None:
        stride = self.of(op).stride(op["axis"])
        op.result.replace_by(build.constant(1, op.result.type) if stride is None else stride)

    def load(self, op: Operation, build: Builder) -> None:
        start = op.inputs[1:]
        self.read(op, build, self.box(op, build, start), start)

    def gather(self, op: Operation, build: Builder) -> None:
        self.read(op, build, self.rows(op, build))

    def read(
        self, op: Operation, build: Builder, indices: Sequence[Along], start: Sequence[Value] = ()
    ) -> None:
        """A load; `start` is the index of a box's first element."""
        parts = self.of(op)
        pointers, mask = address(build, parts, indices, op.result.type.shape)
        pointers = self.boxed(build, pointers, parts, start)
        outside = 0 if parts.type.padding is Padding.ZERO else math.nan
        other = build.constant(outside, op.result.type)
        op.result.replace_by(build(memory.load, pointers, mask, other))

    def boxed(self, build: Builder, pointers: Value, parts: Parts, start: Sequence[Value]) -> Value:
        """The pointers with the word which box they are of, where that is to be said."""
        if not self.boxes or not start or None in map(launch_value, parts.values):
            return pointers
        return build(descriptor.box_pointers, pointers, *parts.values, *start)

    def store(self, op: Operation, build: Builder) -> None:
        start = op.inputs[2:]
        self.write(op, build, self.box(op, build, start), start)

    def scatter(self, op: Operation, build: Builder) -> None:
        self.write(op, build, self.rows(op, build))

    def write(
        self, op: Operation, build: Builder, indices: Sequence[Along], start: Sequence[Value] = ()
    ) -> None:
        """A store; `start` is as for `read`."""
        parts = self.of(op)
        pointers, mask = address(build, parts, indices, op["value"].type.shape)
        pointers = self.boxed(build, pointers, parts, start)
        build.op(memory.store, pointers, op["value"], mask)

    def atomic(self, op: Operation, build: Builder) -> None:
        indices = self.box(op, build, op.inputs[2:])
        pointers, mask = address(build, self.of(op), indices, op["value"].type.shape)
        build.op(
            memory.atomic_rmw, pointers, op["value"], mask, kind=op["kind"], order=Order.RELAXED
        )

    def of(self, op: Operation) -> Parts:
        """The parts of the descriptor that an operation works on."""
        return self.parts[op["desc"]]

    def box(self, op: Operation, build: Builder, offsets: Sequence[Value]) -> list[Along]:
        dims = self.of(op).type.dims
        return [along(build, start, n) for start, n in zip(offsets, dims, strict=True)]

    def rows(self, op: Operation, build: Builder) -> list[Along]:
        columns = self.of(op).type.dims[1]
        return [Along(None, op["rows"]), along(build, op["column"], columns)]


def _promised(build: Builder, parts: Parts) -> Parts:
    """The parts with what a descriptor promises of them."""
    rank, multiple = len(parts.type.dims), parts.type.multiple
    base = _multiple(build, parts.base, Descriptor.ALIGNMENT)
    *extents, last = parts.values[1 : 1 + rank]
    strides = parts.values[1 + rank :]
    # Of an array without gaps the last extent is a stride as well.
    if any(last is _source(stride) for stride in strides):
        last = _multiple(build, last, multiple)
    strides = [_multiple(build, stride, multiple) for stride in strides]
    return Parts(parts.type, [base, *extents, last, *strides])


def _multiple(build: Builder, value: Value, number: int) -> Value:
    """A value with the promise that it is a multiple of a number, unless that is known."""
    source = _source(value)
    block, constant = source.owner, constant_of(source)
    if isinstance(block, Block) and block.owner is not None:
        known = block.owner.arguments[source.index].divisible
    else:
        known = constant if isinstance(constant, int) else 1
    return value if known % number == 0 else build(arith.hint, value, divisible=(number,))


def _source(value: Value) -> Value:
    """The value before it was made 64 bits wide."""
    op = value.op
    return op.inputs[0] if op is not None and op.defn is arith.cast else value


def _flat_types(types: Sequence[Type]) -> tuple[Type, ...]:
    """Types with those of descriptors' parts in their places."""
    return tuple(
        part for ty in types for part in (ty.parts if isinstance(ty, Descriptor) else (ty,))
    )


def _names(desc: Value) -> list[str]:
    """What to call the parts of a descriptor."""
    assert isinstance(desc.type, Descriptor)
    rank = len(desc.type.dims)
    axes = [f"extent.{axis}" for axis in range(rank)]
    axes += [f"stride.{axis}" for axis in range(rank - 1)]
    return [f"{desc.name or 'desc'}.{part}" for part in ("base", *axes)]


_RULES: dict[object, Callable[[_Expansion, Operation, Builder], None]] = {
    arith.poison: _Expansion.poison,
    descriptor.make_descriptor: _Expansion.make,
    descriptor.descriptor_extent: _Expansion.extent,
    descriptor.descriptor_stride: _Expansion.stride,
    descriptor.descriptor_load: _Expansion.load,
    descriptor.descriptor_store: _Expansion.store,
    descriptor.descriptor_atomic: _Expansion.atomic,
    descriptor.descriptor_gather: _Expansion.gather,
    descriptor.descriptor_scatter: _Expansion.scatter,
}
