"""Translation of THREAD IR to code, with what the simulator needs to know of the target."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tile.backends.interp.code import Code, Rules, translate
from tile.backends.interp.thread.accumulators import check_accumulators
from tile.backends.interp.thread.offered import check_supported
from tile.errors import OutOfResourcesError, UnsupportedError, stamp
from tile.ir.core import Module, Operation
from tile.ir.types import Shared
from tile.simt import ops
from tile.simt.target import SimtTarget

# Bytes of shared memory that share one record of accesses, unless accesses are smaller.
GRANULE = 16
# Operations that access vectors of a buffer; the buffer is their first operand.
VECTORS = (
    ops.thread.shared_load,
    ops.thread.shared_store,
    ops.thread.shared_count,
    ops.thread.shared_copy,
)


@dataclass(frozen=True, eq=False)
class ThreadCode:
    """Code of a THREAD module, for programs of `num_warps` warps on a target.

    Each program has `shared_bytes` of shared memory, with access records per `granule` bytes.
    """

    code: Code
    target: SimtTarget
    num_warps: int
    shared_bytes: int
    granule: int

    @property
    def threads(self) -> int:
        """Threads of a program."""
        return self.num_warps * self.target.warp_size

    @property
    def shared_cost(self) -> int:
        """Bytes that the simulator allocates for a program's shared memory and its records."""
        return max(1, self.shared_bytes * (1 + 2 * 8 // self.granule))


def thread_code(module: Module, target: SimtTarget, num_warps: int, rules: Rules) -> ThreadCode:
    """Translate a THREAD module to code.

    Raises `UnsupportedError` for an operation without a rule, for one that the target does not
    have, and for a buffer without an offset; `ProductInFlightError` for an accumulator used before
    its wait; `OutOfResourcesError` for more shared memory or threads than the target has.
    """
    shared = shared_bytes(module)
    _fits(target, shared, num_warps * target.warp_size)
    for op in module.walk():
        with stamp(op.loc):
            check_supported(op, target, num_warps)
    check_accumulators(module)
    return ThreadCode(translate(module, rules), target, num_warps, shared, _granule(module))


def shared_bytes(module: Module) -> int:
    """Return the bytes of shared memory that a program of the module takes."""
    return max((_end(op) for op in module.walk() if op.defn is ops.shared.alloc), default=0)


def _end(alloc: Operation) -> int:
    buffer = alloc.result.type
    assert isinstance(buffer, Shared)
    with stamp(alloc.loc):
        if alloc["at"] < 0:
            raise UnsupportedError(f"{buffer} has no offset yet; the pass plan-shared assigns it")
        if alloc["at"] % buffer.of.itemsize:
            raise UnsupportedError(f"{buffer} cannot begin at byte {alloc['at']}")
    return int(alloc["at"]) + buffer.bytes


def _fits(target: SimtTarget, shared: int, threads: int) -> None:
    for what, count, most in (
        ("bytes of shared memory", shared, target.shared_bytes),
        ("threads", threads, target.max_threads),
    ):
        if count > most:
            raise OutOfResourcesError(
                f"a program of target {target} has at most {most} {what}; this one takes {count}"
            )


def _granule(module: Module) -> int:
    """Return the largest power of two, up to `GRANULE` bytes, that divides all accesses."""
    sizes = [GRANULE]
    for op in module.walk():
        if op.defn is ops.shared.alloc:
            sizes.append(op["at"])
        elif op.defn in VECTORS:
            mem = op.inputs[0].type
            sizes.append(mem.element.itemsize * op.attributes.get("vector", 1))
    return math.gcd(*sizes)
