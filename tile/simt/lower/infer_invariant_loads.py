"""Invariant loads: loads of memory that nothing writes while the kernel runs.

The parameter that a load reads through must be `readonly` and `noalias`: then no program of the
launch writes what it loads. Other kernels and the host may write it if they synchronize with this
kernel. So a kernel that may observe them, by atomic operations whose results it uses, by volatile
loads or by a loop that may wait, has no invariant loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from tile.analysis.alias import PointsTo, alias, module_aliases
from tile.ir.core import Block, Function, Operation
from tile.ir.effects import ATOMIC, accesses_global, ends, is_plain_load
from tile.ir.module import Module
from tile.ir.op_definition import Effect, Level, Trait
from tile.ir.ops import control, memory
from tile.ir.passes import module_pass


@module_pass("infer-invariant-loads", before=Level.THREAD)
def infer_invariant_loads(module: Module, *, invariant_loads: bool = True) -> None:
    """Set `invariant` on the invariant loads of a kernel that may run after a write.

    Only such loads gain: a compiler may move them above the write of the same thread, or keep what
    they load in registers, which it otherwise may do only if it proves that the write is to other
    memory. A kernel without such loads needs no check of `noalias` at launch.

        kernel @k(%x: ptr<f32> {readonly, noalias},     kernel @k(...) {
                  %y: ptr<f32> {noalias}) {               %a = load %x : f32
          %a = load %x : f32                              store %y, %a
          store %y, %a                                    %b = load %x {invariant = true} : f32
          %b = load %x : f32                              ...
          ...
    """
    kernels = [function for function in module.kernels if _constant_parameters(function)]
    if not (invariant_loads and kernels) or any(map(_observes_others, module.walk())):
        return
    aliases = module_aliases(module)
    for kernel in kernels:
        pointers, constant = aliases[kernel.name], _constant_parameters(kernel)
        if pointers.summary.writes.unknown:
            continue
        for load in _loads_after_writes(kernel.body, written=False):
            read = pointers.of(load["ptr"])
            if not read.unknown and read.parameters <= constant:
                load.attributes["invariant"] = True


def invariant_parameters(function: Function) -> frozenset[str]:
    """Return the names of the parameters through which a function has invariant loads.

    The code of these loads is wrong for a launch that writes the same memory through another
    parameter.
    """
    loads = [op for op in function.walk() if op.defn is memory.load and op["invariant"]]
    facts = alias(function).facts if loads else {}
    read = reduce(PointsTo.__or__, (facts[load["ptr"]] for load in loads), PointsTo())
    return frozenset(function.args[index].name for index in read.parameters)


def _constant_parameters(kernel: Function) -> frozenset[int]:
    """Return the positions of the parameters to memory that the launch does not write."""
    return frozenset(i for i, a in enumerate(kernel.arguments) if a.readonly and a.noalias)


def _observes_others(op: Operation) -> bool:
    """Return True if an operation may wait for, or observe, writes of other kernels."""
    if accesses_global(op) and ATOMIC in op.defn.effect:
        return bool(op.result.uses)
    if op.defn is memory.load:
        return not is_plain_load(op)
    return op.defn is control.while_ and not ends(op)


def _loads_after_writes(block: Block, *, written: bool) -> Iterator[Operation]:
    """Yield the loads of a block that may run after a write to global memory.

    written: True if a write may precede the block.
    """
    for op in block:
        writes = any(Effect.WRITE in inner.defn.effect for inner in op.walk())
        for region in op.regions:
            repeated = writes and op.has_trait(Trait.LOOP)
            yield from _loads_after_writes(region, written=written or repeated)
        if op.defn is memory.load and written:
            yield op
        written = written or writes
