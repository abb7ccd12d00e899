"""Lower tensor descriptors to pointers and masks, for targets without TMA.

A descriptor block becomes a tile of pointers and a mask of bounds checks; see
`tile.ir.block_address`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tile.analysis.uniformity import launch_address, launch_value
from tile.ir.block_address import AxisIndices, axis_indices, block_address
from tile.ir.builder import Builder
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.descriptor_type import Descriptor, Padding
from tile.ir.effects import constant_of
from tile.ir.linker import refuse_unresolved
from tile.ir.module import Module
from tile.ir.ops import arith, control, descriptor, memory
from tile.ir.ops.memory import Order
from tile.ir.parameters import Argument
from tile.ir.passes import module_pass
from tile.ir.types import Type
from tile.transforms.canonicalize import canonicalize
from tile.transforms.cse import cse
from tile.transforms.dce import dce
from tile.transforms.licm import licm


@dataclass(frozen=True)
class Components:
    """The components of a descriptor; see `Descriptor.component_types`."""

    type: Descriptor
    values: Sequence[Value]

    @property
    def base(self) -> Value:
        return self.values[0]

    def extent(self, axis: int) -> Value:
        return self.values[1 + axis]

    def stride(self, axis: int) -> Value | None:
        """Return the stride along an axis; None along the last, where it is 1."""
        rank = len(self.type.dims)
        return None if axis == rank - 1 else self.values[1 + rank + axis]


def address(
    build: Builder, components: Components, indices: Sequence[AxisIndices], dims: tuple[int, ...]
) -> tuple[Value, Value]:
    """Return the pointers to the elements of a block of shape `dims`, and the in-bounds mask."""
    axes = range(len(components.type.dims))
    strides = [components.stride(axis) for axis in axes]
    extents = [components.extent(axis) for axis in axes]
    pointers, mask = block_address(build, components.base, strides, extents, indices, dims)
    assert mask is not None
    return pointers, mask


@module_pass("descriptors-to-pointers")
def descriptors_to_pointers(
    module: Module, *, simplify: bool = True, keep_blocks: bool = False
) -> None:
    """Lower descriptors to pointers, extents and strides, and their accesses to masked accesses.

    Descriptors that pass through loops, branches and calls become several values. Hints state that
    the array's address and its strides are multiples of 16 bytes. Unless `simplify` is false, the
    result is simplified, and loop-invariant code is hoisted. With `keep_blocks`,
    `descriptor_pointers` keeps the descriptor block of pointers if the array is known at launch.

        %d = make_tensor_descriptor %p, %n {block = (8)} : desc<8xf32>
        %x = descriptor_load %d, %i : tile<8xf32>

    becomes, with `%j` the indices as unsigned integers, and `%w` the indices in 64 bits:

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
    refuse_unresolved(module)  # the definition in another module would still take descriptors
    for function in module:
        _Expansion(function, keep_blocks and function.kernel).run()
    if simplify:
        for clean in (canonicalize, cse, licm, dce):
            clean(module)


class _Expansion:
    """The lowering of the descriptors of one function."""

    def __init__(self, function: Function, keep_blocks: bool) -> None:
        self.function = function
        self.keep_blocks = keep_blocks
        self.components: dict[Value, Components] = {}
        self.replaced: list[Operation] = []  # in program order, so users come later

    def run(self) -> None:
        function = self.function
        function.result_types = _flat_types(function.result_types)
        self.parameters()
        self.block(function.body)
        for op in reversed(self.replaced):
            op.erase()

    def parameters(self) -> None:
        """Replace the function's descriptor parameters by parameters for their components."""
        function = self.function
        old_arguments = dict(zip(function.args, function.arguments, strict=True))
        function.body.args = self.arguments(function.body)
        function.arguments = [old_arguments.get(value, Argument()) for value in function.args]
        assert function.body.first is not None
        build = Builder(function.body, function.body.first, function.loc)
        for value, components in list(self.components.items()):
            self.components[value] = _with_hints(build, components)

    def arguments(self, block: Block) -> list[Value]:
        """Return the arguments of a block, with components in place of descriptors."""
        arguments: list[Value] = []
        for value in block.args:
            if not isinstance(value.type, Descriptor):
                arguments.append(value)
                continue
            components = [Value(ty, block, 0) for ty in value.type.component_types]
            arguments.extend(components)
            self.bind(value, components)
        for index, value in enumerate(arguments):
            value.index = index
        return arguments

    def bind(self, value: Value, components: Sequence[Value]) -> None:
        """Set the components of a descriptor."""
        assert isinstance(value.type, Descriptor)
        self.components[value] = Components(value.type, components)
        for name, component in zip(_names(value), components, strict=True):
            component.name = component.name or name

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
        """Replace a control-flow operation on descriptors by one that passes their components."""
        regions, op.regions = op.regions, []
        types = _flat_types([value.type for value in op.results])
        new = Builder.before(op).copy(op, self.flat(op.inputs), types, regions)
        results = iter(new.results)
        for value in op.results:
            if isinstance(value.type, Descriptor):
                self.bind(value, [next(results) for _ in value.type.component_types])
                if op.defn is control.call:
                    self.components[value] = _with_hints(Builder.before(op), self.components[value])
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
        """Return the values, with components in place of descriptors."""
        flat: list[Value] = []
        for value in values:
            flat.extend(self.components[value].values if value in self.components else (value,))
        return flat

    # -- operations on descriptors

    def poison(self, op: Operation, build: Builder) -> None:
        assert isinstance(op.result.type, Descriptor)
        self.bind(
            op.result, [build(arith.poison, result=ty) for ty in op.result.type.component_types]
        )

    def make(self, op: Operation, build: Builder) -> None:
        self.bind(op.result, op.inputs)
        self.components[op.result] = _with_hints(build, self.components[op.result])

    def extent(self, op: Operation, build: Builder) -> None:
        op.result.replace_by(self.of(op).extent(op["axis"]))

    def stride(self, op: Operation, build: Builder) -> None:
        stride = self.of(op).stride(op["axis"])
        op.result.replace_by(build.constant(1, op.result.type) if stride is None else stride)

    def access(self, op: Operation, build: Builder) -> None:
        """Replace an access of a block or of rows by one through pointers."""
        components = self.of(op)
        dims = components.type.dims
        if op.defn in _BY_ROWS:
            indices = [AxisIndices(None, op["rows"]), axis_indices(build, op["column"], dims[1])]
        else:
            start = op.inputs[-len(dims) :]
            indices = [axis_indices(build, at, n) for at, n in zip(start, dims, strict=True)]
        accessed = op.result if op.results else op["value"]
        pointers, mask = address(build, components, indices, accessed.type.shape)
        is_block = op.defn not in _BY_ROWS
        if self.keep_blocks and is_block and _is_computed_at_launch(components):
            pointers = build(descriptor.descriptor_pointers, pointers, *components.values, *start)
        if op.results:
            padding = 0 if components.type.padding is Padding.ZERO else math.nan
            other = build.constant(padding, op.result.type)
            op.result.replace_by(build(memory.load, pointers, mask, other))
        elif op.defn is descriptor.descriptor_reduce:
            build.op(
                memory.atomic_rmw, pointers, op["value"], mask, kind=op["kind"], order=Order.RELAXED
            )
        else:
            build.op(memory.store, pointers, op["value"], mask)

    def of(self, op: Operation) -> Components:
        """Return the components of the descriptor on which an operation works."""
        return self.components[op["desc"]]


_BY_ROWS = (descriptor.descriptor_gather, descriptor.descriptor_scatter)


def _is_computed_at_launch(components: Components) -> bool:
    base, *sizes = components.values
    return launch_address(base) is not None and None not in map(launch_value, sizes)


def _with_hints(build: Builder, components: Components) -> Components:
    """Return the components with hints of the alignment that descriptors guarantee."""
    rank, multiple = len(components.type.dims), components.type.stride_multiple
    base = _multiple(build, components.base, Descriptor.ALIGNMENT)
    *extents, last = components.values[1 : 1 + rank]
    strides = components.values[1 + rank :]
    # The last extent of an array without gaps is a stride as well.
    if any(last is _source(stride) for stride in strides):
        last = _multiple(build, last, multiple)
    strides = [_multiple(build, stride, multiple) for stride in strides]
    return Components(components.type, [base, *extents, last, *strides])


def _multiple(build: Builder, value: Value, number: int) -> Value:
    """Return a value with a hint that it is a multiple of `number`, unless that is known."""
    source = _source(value)
    block, constant = source.owner, constant_of(source)
    if isinstance(block, Block) and block.owner is not None:
        divisor = block.owner.arguments[source.index].divisible
    else:
        divisor = constant if isinstance(constant, int) else 1
    return value if divisor % number == 0 else build(arith.hint, value, divisible=(number,))


def _source(value: Value) -> Value:
    """Return the value before its extension to 64 bits."""
    op = value.op
    return op.inputs[0] if op is not None and op.defn is arith.cast else value


def _flat_types(types: Sequence[Type]) -> tuple[Type, ...]:
    """Return the types, with component types in place of descriptors."""
    flat: list[Type] = []
    for ty in types:
        flat.extend(ty.component_types if isinstance(ty, Descriptor) else (ty,))
    return tuple(flat)


def _names(desc: Value) -> list[str]:
    """Return names for the components of a descriptor."""
    assert isinstance(desc.type, Descriptor)
    rank = len(desc.type.dims)
    axes = [f"extent.{axis}" for axis in range(rank)]
    axes += [f"stride.{axis}" for axis in range(rank - 1)]
    return [f"{desc.name or 'desc'}.{component}" for component in ("base", *axes)]


_RULES: dict[object, Callable[[_Expansion, Operation, Builder], None]] = {
    arith.poison: _Expansion.poison,
    descriptor.make_tensor_descriptor: _Expansion.make,
    descriptor.descriptor_shape: _Expansion.extent,
    descriptor.descriptor_stride: _Expansion.stride,
    **dict.fromkeys(
        (
            descriptor.descriptor_load,
            descriptor.descriptor_store,
            descriptor.descriptor_reduce,
            descriptor.descriptor_gather,
            descriptor.descriptor_scatter,
        ),
        _Expansion.access,
    ),
}
