"""Runs LAID_OUT IR on one program, element by element, and looks for races between its threads.

Shared memory is bytes, in which buffers lie where `allocate-shared` put them. Each access notes which
threads touch which bytes. Two threads race if they touch a byte, one of them to write it, with no
barrier in between; and so does whoever touches what a copy is still being written to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tile.ir.core import Block, Function, Operation, Value
from tile.ir.module import Module
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.ops import control, memory, reduce
from tile.ir.shared_type import Shared
from tile.ir.types import Pointer, Tile
from tile.simt import ops
from tile.simt.ops.layout_inference import layout_of

NOBODY, MANY = -1, -2


@dataclass(frozen=True)
class Race:
    """Threads that meet at a byte: at which operation that showed."""

    op: Operation
    memory: str

    def __str__(self) -> str:
        return f"{self.op.name} at {self.op.loc} races in {self.memory} memory"


@dataclass
class Bytes:
    """Memory, and who touched each of its bytes since the last barrier."""

    name: str
    data: Any

    def __post_init__(self) -> None:
        self.barrier()

    def barrier(self) -> None:
        self.readers, self.writers, self.counters = (
            np.full(len(self.data), NOBODY) for _ in range(3)
        )

    def touch(self, kind: str, threads: Any, addresses: Any) -> bool:
        """Note who touches which bytes; whether that is a race."""
        own, *against = {
            "read": (self.readers, self.writers, self.counters),
            "write": (self.writers, self.readers, self.writers, self.counters),
            "count": (self.counters, self.readers, self.writers),
        }[kind]
        before = [notes[addresses] for notes in against]
        race = any(np.any((computed != NOBODY) & (computed != threads)) for computed in before)
        lowest = np.full(len(self.data), np.iinfo(np.int64).max)
        highest = np.full(len(self.data), NOBODY)
        np.minimum.at(lowest, addresses, threads)
        np.maximum.at(highest, addresses, threads)
        touched = highest != NOBODY
        one = touched & (lowest == highest) & ((own == NOBODY) | (own == highest))
        own[one] = highest[one]
        own[touched & ~one] = MANY
        return bool(race)


@dataclass
class Machine:
    """One program. `memory` is all global memory; pointers are offsets into it, in bytes."""

    module: Module
    memory: Any
    shared_bytes: int = 1 << 16
    races: list[Race] = field(default_factory=list)
    fuel: int = 20000

    def __post_init__(self) -> None:
        self.values: dict[Value, Any] = {}
        self.out = Bytes("global", self.memory)
        self.shared = Bytes("shared", np.full(self.shared_bytes, 0xCD, np.uint8))
        self.open: list[Any] = []  # copies that belong to no group yet
        self.groups: list[list[Any]] = []  # those under way, from the oldest on
        self.unplanned: dict[Value, int] = {}
        self.threads = _threads(self.module)

    def run(self, function: Function, arguments: list[Any]) -> list[Any]:
        for value, number in zip(function.args, arguments, strict=True):
            self.values[value] = number
        return self.block(function.body)

    def block(self, block: Block) -> list[Any]:
        for op in block:
            self.fuel -= 1
            assert self.fuel > 0, "the program does not end"
            if op.defn.terminator:
                return [self.values[v] for v in op.inputs]
            rule = _RULES.get(op.name)
            results = rule(self, op) if rule is not None else self.pure(op)
            self.values.update(zip(op.results, results, strict=True))
        raise AssertionError("a block without end")

    def pure(self, op: Operation) -> list[Any]:
        assert op.defn.semantics is not None, op.name
        operands = [None if v is None else self.values[v] for v in op.operands]
        computed = op.defn.semantics(*operands, **op.attributes)
        computed = computed if isinstance(computed, tuple) else (computed,)
        return [
            np.broadcast_to(x, (1, *v.type.shape))
            for x, v in zip(computed, op.results, strict=True)
        ]

    # -- who holds what

    def holders(self, value: Value, first: bool) -> tuple[Any, Any]:
        """Threads and the number of the element that they hold, a pair for each, or the first."""
        if not isinstance(value.type, Tile):
            threads = np.arange(1 if first else self.threads)
            return threads, np.zeros_like(threads)
        layout = layout_of(value)
        table = layout.table()
        numbers = np.ravel_multi_index([table[n] for n in layout.out_dims], layout.shape)
        lanes, warps = numbers.shape[1:]
        threads = np.arange(lanes)[:, None] + lanes * np.arange(warps)
        threads = np.broadcast_to(threads, numbers.shape)
        if not first:
            return threads.ravel(), numbers.ravel()
        free = layout.free_variables()
        index = np.indices(numbers.shape)
        is_held = [i & free[name] == 0 for i, name in zip(index, layout.in_dims, strict=True)]
        chosen = np.all(is_held, axis=0)
        return threads[chosen], numbers[chosen]

    def note(self, op: Operation, where: Bytes, kind: str, threads: Any, addresses: Any) -> None:
        under_way = [copy for group in [self.open, *self.groups] for copy in group]
        in_flight = where is self.shared and any(
            np.intersect1d(addresses, copy[1]).size for copy in under_way
        )
        if where.touch(kind, threads, addresses) or in_flight:
            self.races.append(Race(op, where.name))

    # -- shared memory

    def place(self, mem: Value) -> tuple[Shared, int]:
        op, ty = mem.op, mem.type
        assert op is not None and isinstance(ty, Shared)
        if op.defn is ops.shared.local_subview:
            whole, at = self.place(op["mem"])
            stage = (int(self.values[op["iteration"]][0]) + op["stage_offset"]) % whole.stages
            return ty, at + stage * ty.bytes
        if op["offset"] >= 0:
            return ty, op["offset"]
        if mem not in self.unplanned:  # before allocate-shared, each has a place of its own
            self.unplanned[mem] = sum(_bytes(v) for v in self.unplanned)
        return ty, self.unplanned[mem]

    def offsets(self, mem: Value, index: Any = None) -> Any:
        """Return the byte offset of each element, in the tile's order or at indices."""
        ty, at = self.place(mem)
        layout: Any = ty.layout
        coordinates = np.indices(ty.dims) if index is None else index
        named = dict(zip(layout.out_dims, coordinates, strict=True))
        return at + layout.invert().apply(**named)["offset"] * ty.of.itemsize

    def access(
        self, op: Operation, mem: Value, value: Value, kind: str, offsets: Any
    ) -> tuple[Any, Any]:
        """Note an access by those that hold a tile; threads and bytes."""
        ty, _ = self.place(mem)
        first = kind != "read"
        threads, elements = self.holders(value, first)
        touched = spread(threads, offsets.ravel()[elements], ty.of.itemsize)
        self.note(op, self.shared, kind, *touched)
        return touched


def _bytes(mem: Value) -> int:
    assert isinstance(mem.type, Shared)
    return mem.type.bytes


def _threads(module: Module) -> int:
    for op in module.walk():
        for value in op.results:
            if isinstance(value.type, Tile):
                return layout_of(value).in_size("lane") * layout_of(value).in_size("warp")
    return 1


def spread(threads: Any, starts: Any, size: int) -> tuple[Any, Any]:
    """A pair of thread and byte for each of the `size` bytes that an access begins with."""
    addresses = np.asarray(starts)[:, None] + np.arange(size)
    return np.repeat(threads, size), addresses.ravel()


def get(where: Bytes, starts: Any, dtype: Any) -> Any:
    raw = where.data[np.asarray(starts)[..., None] + np.arange(dtype.itemsize)]
    return np.ascontiguousarray(raw).view(dtype)[..., 0]


def put(where: Bytes, starts: Any, values: Any) -> None:
    values = np.ascontiguousarray(values)
    raw = values[..., None].view(np.uint8)
    where.data[np.asarray(starts)[..., None] + np.arange(values.dtype.itemsize)] = raw


def dtype_of(value: Value) -> Any:
    element = value.type.element
    return np.dtype(np.int64 if isinstance(element, Pointer) else numpy_dtype(element))


def _store(m: Machine, op: Operation) -> list[Any]:
    mem, value = op.inputs
    offsets = m.offsets(mem)
    m.access(op, mem, value, "write", offsets)
    put(m.shared, offsets, m.values[value][0])
    return []


def _load(m: Machine, op: Operation) -> list[Any]:
    (mem,) = op.inputs
    index = np.indices(op.result.type.shape)
    if op["mask"]:
        index = np.stack([i ^ k for i, k in zip(index, op["mask"], strict=True)])
    offsets = m.offsets(mem, index)
    m.access(op, mem, op.result, "read", offsets)
    return [get(m.shared, offsets, dtype_of(op.result))[None]]


def _gather(m: Machine, op: Operation) -> list[Any]:
    mem, index = op.inputs
    chosen = np.indices(index.type.shape)
    extent = mem.type.shape[op["axis"]]
    chosen[op["axis"] % len(chosen)] = np.clip(m.values[index][0], 0, extent - 1)
    offsets = m.offsets(mem, chosen)
    m.access(op, mem, op.result, "read", offsets)
    return [get(m.shared, offsets, dtype_of(op.result))[None]]


def _count(m: Machine, op: Operation) -> list[Any]:
    mem, index, mask = op.inputs
    ty, _ = m.place(mem)
    numbers = m.values[index][0]
    chosen = m.values[mask][0] & (numbers >= 0) & (numbers < ty.dims[0])
    addresses = m.offsets(mem)[np.where(chosen, numbers, 0)]
    threads, elements = m.holders(index, first=True)
    there = chosen.ravel()[elements]
    m.note(op, m.shared, "count", *spread(threads[there], addresses.ravel()[elements][there], 4))
    for start in addresses[chosen]:
        put(m.shared, [start], get(m.shared, [start], dtype_of(mem)) + np.int32(1))
    return []


def _copy(m: Machine, op: Operation) -> list[Any]:
    mem, ptr = op["mem"], op["ptr"]
    ty, _ = m.place(mem)
    offsets = m.offsets(mem)
    touched = m.access(op, mem, ptr, "write", offsets)
    data = _read(m, op, np.dtype(numpy_dtype(ty.of)))
    m.open.append((*touched, offsets, data[0]))
    return []


def _wait(m: Machine, op: Operation) -> list[Any]:
    first = max(0, len(m.groups) - op["pending"])
    done, m.groups = m.groups[:first], m.groups[first:]
    for threads, addresses, offsets, data in (copy for group in done for copy in group):
        m.shared.touch("write", threads, addresses)
        put(m.shared, offsets, data)
    return []


def _commit(m: Machine, op: Operation) -> list[Any]:
    m.groups.append(m.open)
    m.open = []
    return []


# -- global memory


def _note_global(m: Machine, op: Operation, kind: str) -> None:
    ptr, mask = op["ptr"], op["mask"]
    threads, elements = m.holders(ptr, first=kind != "read")
    starts = np.broadcast_to(m.values[ptr][0], ptr.type.shape).ravel()[elements]
    if mask is not None:
        there = np.broadcast_to(m.values[mask][0], ptr.type.shape).ravel()[elements]
        threads, starts = threads[there], starts[there]
    m.note(op, m.out, kind, *spread(threads, starts, ptr.type.element.pointee.itemsize))


def _read(m: Machine, op: Operation, dtype: Any) -> Any:
    _note_global(m, op, "read")
    pointers = m.values[op["ptr"]]
    there = np.ones(pointers.shape, bool) if op["mask"] is None else m.values[op["mask"]]
    return np.where(there, get(m.out, np.where(there, pointers, 0), dtype), np.zeros((), dtype))


def _global_load(m: Machine, op: Operation) -> list[Any]:
    data = _read(m, op, dtype_of(op.result))
    if op["other"] is not None:
        data = np.where(m.values[op["mask"]], data, m.values[op["other"]])
    return [data]


def _global_store(m: Machine, op: Operation) -> list[Any]:
    _note_global(m, op, "write")
    pointers = m.values[op["ptr"]]
    there = np.ones(pointers.shape, bool) if op["mask"] is None else m.values[op["mask"]]
    put(m.out, pointers[there], m.values[op["value"]][there])
    return []


def _atomic(m: Machine, op: Operation) -> list[Any]:
    """An addition; the result is what was there before any of them."""
    assert op["mask"] is None and op["kind"] is memory.RMWKind.ADD
    _note_global(m, op, "write" if op.result.uses else "count")
    dtype, pointers = dtype_of(op.result), m.values[op["ptr"]]
    old = get(m.out, pointers, dtype)
    for place, number in zip(pointers.ravel(), m.values[op["value"]].ravel(), strict=True):
        put(m.out, [place], get(m.out, [place], dtype) + number)
    return [old]


# -- control


def _if(m: Machine, op: Operation) -> list[Any]:
    return m.block(op.regions[0 if m.values[op.inputs[0]][0] else 1])


def _for(m: Machine, op: Operation) -> list[Any]:
    (body,) = op.regions
    lower, upper, step = (int(m.values[v][0]) for v in op.inputs[:3])
    carried = [m.values[v] for v in op.inputs[3:]]
    for number in range(lower, upper, step):
        m.values[body.args[0]] = np.array([number], dtype_of(body.args[0]))
        m.values.update(zip(body.args[1:], carried, strict=True))
        carried = m.block(body)
    return carried


def _while(m: Machine, op: Operation) -> list[Any]:
    test, body = op.regions
    carried = [m.values[v] for v in op.inputs]
    while True:
        m.values.update(zip(test.args, carried, strict=True))
        if not m.block(test)[0][0]:
            return carried
        m.values.update(zip(body.args, carried, strict=True))
        carried = m.block(body)


def _call(m: Machine, op: Operation) -> list[Any]:
    return m.run(m.module[op["callee"]], [m.values[v] for v in op.inputs])


def _reduce(m: Machine, op: Operation) -> list[Any]:
    axis = op["axis"]
    assert all(v.type.shape[axis] == 1 for v in op.inputs), "only an axis of extent 1 is dropped"
    return [np.squeeze(m.values[v], axis) for v in op.inputs]


def _barrier(m: Machine, op: Operation) -> list[Any]:
    m.shared.barrier()
    m.out.barrier()
    return []


def _const(m: Machine, op: Operation) -> list[Any]:
    return [np.full((1, *op.result.type.shape), op["value"], dtype_of(op.result))]


_RULES: dict[str, Callable[[Machine, Operation], list[Any]]] = {
    "const": _const,
    "local_alloc": lambda m, op: [None],
    "local_subview": lambda m, op: [None],
    "local_store": _store,
    "local_load": _load,
    "local_gather": _gather,
    "local_atomic_inc": _count,
    "local_cp_async": _copy,
    "cp_async_wait_group": _wait,
    "cp_async_commit_group": _commit,
    memory.load.name: _global_load,
    memory.store.name: _global_store,
    memory.atomic_rmw.name: _atomic,
    memory.barrier.name: _barrier,
    control.if_.name: _if,
    control.for_.name: _for,
    control.while_.name: _while,
    control.call.name: _call,
    reduce.reduce_region.name: _reduce,
}
