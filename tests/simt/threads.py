"""THREAD IR without loops, done in NumPy by what its operations' declarations say, and no faster.

A value is an array with an axis of threads, and one of registers for a fragment. Threads go in step
from one operation to the next, so there is nothing to wait for. Memory is one array, and a pointer
a number of bytes into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tile.ir import semantics
from tile.ir.core import Function, Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import control, memory
from tile.ir.shared_type import Shared
from tile.ir.types import Fragment, Type
from tile.simt import ops
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import MmaShape, Operand, matrix_fragment

Array = Any


def held(layout: LinearLayout, tile: Array) -> Array:
    """Return each thread's elements of a tile: an array of (thread, register)."""
    coordinates = layout.transpose_ins("warp", "lane", "register").table()
    values = np.asarray(tile)[tuple(coordinates[name] for name in layout.out_dims)]
    return values.reshape(-1, layout.in_size("register"))


def whole(layout: LinearLayout, fragments: Array) -> Array:
    """The tile that threads hold; copies must be equal."""
    tile = np.zeros(layout.shape, fragments.dtype)
    coordinates = layout.transpose_ins("warp", "lane", "register").table()
    elements = tuple(coordinates[name].reshape(fragments.shape) for name in layout.out_dims)
    tile[elements] = fragments
    np.testing.assert_array_equal(tile[elements], fragments)
    return tile


@dataclass
class Threads:
    """A warp size and number of warps, with the memory that their threads share."""

    lanes: int
    warps: int
    memory: Array = field(default_factory=lambda: np.zeros(0, np.uint8))
    arrays: dict[Value, Array] = field(default_factory=dict)
    buffers: dict[Value, Array] = field(default_factory=dict)
    done: list[Operation] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.lanes * self.warps

    def call(self, function: Function, *arguments: Array) -> list[Array]:
        """Call a function on arrays of threads and registers of fragments, and return its results."""
        for value, argument in zip(function.args, arguments, strict=True):
            self.keep(value, np.asarray(argument))
        with semantics.quiet():
            for op in function.body:
                if op.defn is control.return_:
                    return [self.arrays[value] for value in op.inputs]
                self.done.append(op)
                result = RULES.get(op.defn, Threads.semantics)(self, op)
                for value in op.results:
                    if not isinstance(value.type, Shared):
                        self.keep(value, result)
        raise AssertionError(f"{function} does not return")

    def keep(self, value: Value, array: Array) -> None:
        shape = self.shape(value.type)
        array = np.asarray(array)
        if array.ndim == 0:
            array = array.reshape((1,) * len(shape))
        self.arrays[value] = np.broadcast_to(array, shape)

    def shape(self, ty: Type) -> tuple[int, ...]:
        return (self.count, ty.count) if isinstance(ty, Fragment) else (self.count,)

    def of(self, op: Operation, name: str) -> Array:
        value = op[name]
        return None if value is None else self.arrays[value]

    def by_lane(self, array: Array) -> Array:
        return array.reshape(self.warps, self.lanes, *array.shape[1:])

    # -- operations

    def semantics(self, op: Operation) -> Array:
        assert op.defn.semantics is not None, op.name
        return op.defn.semantics(*(self.arrays[value] for value in op.inputs), **op.attributes)

    def layout_index(self, op: Operation) -> Array:
        layout = op["layout"]
        names = [name for name in ("warp", "lane", "register") if name in layout.in_dims]
        assert layout.in_size("warp") == self.warps and layout.in_size("lane") == self.lanes
        table = layout.transpose_ins(*names).reshape_outs({"number": layout_size(layout)}).table()
        return table["number"].reshape(self.shape(op.result.type)).astype(np.int32)

    def thread_id(self, op: Operation) -> Array:
        return np.arange(self.count, dtype=np.int32)

    def fill(self, op: Operation) -> Array:
        return self.of(op, "x")[:, None]

    def pick(self, op: Operation) -> Array:
        return np.concatenate([self.arrays[x] for x in op.inputs], 1)[:, list(op["registers"])]

    def element(self, op: Operation) -> Array:
        return self.of(op, "x")[:, op["register"]]

    def shuffle(self, op: Operation) -> Array:
        x, lane = self.by_lane(self.of(op, "x")), self.by_lane(self.of(op, "lane"))
        assert np.all((lane >= 0) & (lane < self.lanes)), "a shuffle from outside of the warp"
        got = np.take_along_axis(x, lane[..., None].astype(np.int64), 1)
        return got.reshape(self.shape(op.result.type))

    def shuffle_xor(self, op: Operation) -> Array:
        x = self.by_lane(self.of(op, "x"))
        return x[:, np.arange(self.lanes) ^ op["mask"]].reshape(self.shape(op.result.type))

    # -- shared memory

    def alloc(self, op: Operation) -> None:
        ty = op.result.type
        self.buffers[op.result] = np.zeros(ty.numel, semantics.numpy_dtype(ty.of))

    def elements(self, op: Operation, name: str = "offset") -> tuple[Array, Array]:
        """The buffer, and the places of all registers: vectors of contiguous elements that are aligned."""
        buffer, offset = self.buffers[op["mem"]], self.arrays[op[name]]
        vector = op.attributes.get("vector", 1)
        assert np.all(offset % vector == 0)
        elements = offset[..., None] + np.arange(vector)
        assert np.all((elements >= 0) & (elements < len(buffer)))
        return buffer, elements.reshape(self.count, -1)

    def shared_load(self, op: Operation) -> Array:
        buffer, elements = self.elements(op)
        return buffer[elements]

    def shared_store(self, op: Operation) -> None:
        buffer, elements = self.elements(op)
        mask, value = self.vectors(op), self.of(op, "value")
        buffer[elements[mask]] = value[mask]
        np.testing.assert_array_equal(buffer[elements[mask]], value[mask])

    def shared_atomic_inc(self, op: Operation) -> None:
        buffer, elements = self.elements(op)
        np.add.at(buffer, elements[self.vectors(op)], 1)

    def shared_cp_async(self, op: Operation) -> None:
        buffer, elements = self.elements(op)
        size, vector = buffer.itemsize, op["vector"]
        address = self.contiguous(self.of(op, "ptr"), size, vector)
        mask = self.vectors(op)
        value = np.where(mask, self.memory.view(buffer.dtype)[address // size], 0)
        active = self.of(op, "active")
        if active is not None:
            here = np.broadcast_to(active, (self.count,))
            elements, value = elements[here], value[here]
        _, times = np.unique(elements, return_counts=True)
        assert np.all(times == 1), "an element is copied more than once"
        buffer[elements] = value

    def vectors(self, op: Operation) -> Array:
        """The mask of each register, from those of vectors."""
        elements = self.arrays[op["offset"]]
        mask = self.of(op, "mask")
        mask = np.ones(elements.shape, bool) if mask is None else mask
        return np.repeat(mask, op.attributes.get("vector", 1), 1)

    # -- global memory

    def contiguous(self, address: Array, size: int, vector: int) -> Array:
        """Addresses that are contiguous, in aligned vectors."""
        if address.ndim > 1:
            runs = address.reshape(self.count, -1, vector)
            assert np.all(runs[..., :1] % (size * vector) == 0), "a vector that is not aligned"
            assert np.all(runs == runs[..., :1] + size * np.arange(vector)), "not contiguous"
        return address

    def access(self, op: Operation, element: Any) -> tuple[Array, Array, Array]:
        dtype = semantics.numpy_dtype(element)
        vector = op["vector"]
        address = self.contiguous(self.of(op, "ptr"), dtype.itemsize, vector)
        mask = self.of(op, "mask")
        mask = np.ones(address.shape, bool) if mask is None else mask
        if mask.ndim > 1:
            runs = mask.reshape(self.count, -1, vector)
            assert np.all(runs == runs[..., :1]), "a vector under two masks"
        memory = self.memory.view(dtype)
        return memory, np.where(mask, address // dtype.itemsize, 0), mask

    def load(self, op: Operation) -> Array:
        memory, index, mask = self.access(op, op.result.type.element)
        other = self.of(op, "other")
        return np.where(mask, memory[index], 0 if other is None else other)

    def store(self, op: Operation) -> None:
        memory, index, mask = self.access(op, op["value"].type.element)
        assert len(np.unique(index[mask])) == np.count_nonzero(mask), "stored twice"
        memory[index[mask]] = self.of(op, "value")[mask]

    # -- dots

    def fma_dot(self, op: Operation) -> Array:
        batch, m, n, k = op["sizes"]
        a, b, acc = (self.arrays[value] for value in op.inputs)
        a, b = a.reshape(-1, batch, m, k), b.reshape(-1, batch, k, n)
        computed = semantics.dot(a, b, acc.reshape(-1, batch, m, n), op["input_precision"])
        return computed.reshape(self.count, -1)

    def mma(self, op: Operation) -> Array:
        """Every warp's dot: matrices from fragments, and back."""
        shape, (m, n, k) = MmaShape(*op["shape"]), op["repeats"]
        counts = {"m": m, "n": n, "k": k}
        layouts = []
        for operand, fastest in zip(Operand, ("km", "kn", "nm"), strict=True):
            layout = matrix_fragment(shape, operand)
            layout = layout.select_ins("register", "lane")
            for axis in fastest:
                bits = counts[axis].bit_length() - 1
                at = f"dim{operand.value.index(axis)}"
                steps = LinearLayout((("register", units(bits)),), ((at, bits),))
                layout = (layout * steps).transpose_outs("dim0", "dim1")
            layouts.append(layout)
        a, b, acc = (self.by_lane(self.arrays[value]) for value in op.inputs)
        computed = [
            semantics.dot(
                *(
                    whole(with_warp(layout), x[warp])[None]
                    for layout, x in zip(layouts, (a, b, acc), strict=True)
                ),
                op["input_precision"],
            )[0]
            for warp in range(self.warps)
        ]
        return np.concatenate([held(with_warp(layouts[2]), tile) for tile in computed])


def units(bits: int) -> tuple[int, ...]:
    return tuple(1 << bit for bit in range(bits))


def with_warp(layout: LinearLayout) -> LinearLayout:
    """The layout of one warp."""
    return LinearLayout((*layout.ins, ("warp", ())), layout.outs)


def layout_size(layout: LinearLayout) -> int:
    return int(np.prod(layout.shape, dtype=np.int64))


RULES: dict[OpDef, Callable[[Threads, Operation], Array]] = {
    ops.thread.layout_index: Threads.layout_index,
    ops.thread.thread_id: Threads.thread_id,
    ops.thread.frag_splat: Threads.fill,
    ops.thread.frag_shuffle: Threads.pick,
    ops.thread.frag_extract: Threads.element,
    ops.thread.shuffle_idx: Threads.shuffle,
    ops.thread.shuffle_xor: Threads.shuffle_xor,
    ops.thread.shared_load: Threads.shared_load,
    ops.thread.shared_store: Threads.shared_store,
    ops.thread.shared_atomic_inc: Threads.shared_atomic_inc,
    ops.thread.shared_cp_async: Threads.shared_cp_async,
    ops.shared.local_alloc: Threads.alloc,
    ops.mma.fma_dot: Threads.fma_dot,
    ops.mma.mma: Threads.mma,
    memory.load: Threads.load,
    memory.store: Threads.store,
    memory.barrier: lambda threads, op: None,
}


def calls(threads: Threads, defn: OpDef) -> Sequence[Operation]:
    """The operations of a kind that were done."""
    return [op for op in threads.done if op.defn is defn]
