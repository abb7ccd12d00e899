"""The arguments of one call of an op, checked before anything is launched or written.

    call = Call("softmax")
    x = call.array("x", x)                           an Operand: shape, strides, dtype
    out = call.output("out", out, x.shape, x.dtype)  the caller's array, or a new one

Every check raises an `ArgumentError` that names the op and the argument, says what is wrong with
it and what would be right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tile import backends
from tile.backends.capabilities import ThreadLowering
from tile.errors import ArgumentValueError
from tile.ops.core.distinct_memory import require_apart
from tile.ops.core.dtypes import BF16, F16, F32, F64, FLOATS, I8, I32, I64, INDICES, accumulator
from tile.ops.core.inputs import Inputs
from tile.ops.core.new_arrays import DType, Shape, new_array, row_major
from tile.ops.core.operand import Operand
from tile.ops.core.options import MOST_INTEGER
from tile.ops.core.recorder import recorder
from tile.runtime.target_selection import target_of, target_text

# What ops import, whichever module of this package has it.
__all__ = [
    "BF16",
    "F16",
    "F32",
    "F64",
    "FLOATS",
    "I8",
    "I32",
    "I64",
    "INDICES",
    "MOST_INTEGER",
    "Call",
    "Operand",
    "accumulator",
]

MOST_BYTES = 2**48  # of an array


class Call(Inputs):
    """The arguments of one call of an op; its arrays are all in the memory of one device."""

    def output(
        self, name: str, value: Any, shape: Shape, dtype: DType, in_place: Sequence[str] = ()
    ) -> Operand:
        """Return an array to write: `value`, or if that is None a new one, like the first operand.

        in_place: the operands that it may be. Raises `ArgumentError` unless `value` is a writable
        array of this shape and dtype, which shares no memory with other operands.
        """
        if value is None:
            return self.new(shape, dtype, name)
        operand = self._writable(name, value, shape, dtype)
        require_apart(self.operands, {len(self.operands) - 1: in_place})
        return operand

    def outputs(
        self, name: str, values: Any, like: Sequence[Operand], in_place: Sequence[str] = ()
    ) -> list[Operand]:
        """Return a list of arrays to write, with the shapes and dtypes of `like`, as `output` does.

        in_place: the lists of operands whose arrays at the same places they may be.
        """
        if values is None:
            return [self.new(one.shape, one.dtype, f"{name}[{at}]") for at, one in enumerate(like)]
        first = len(self.operands)
        operands = [
            self._writable(f"{name}[{at}]", value, one.shape, one.dtype)
            for at, (value, one) in enumerate(zip(values, like, strict=True))
        ]
        pairs = enumerate(range(first, len(self.operands)))
        allowed = {number: [f"{other}[{at}]" for other in in_place] for at, number in pairs}
        require_apart(self.operands, allowed)
        return operands

    def _writable(self, name: str, value: Any, shape: Shape, dtype: DType) -> Operand:
        operand = self.array(name, value, dtypes=(dtype,), rank=len(shape), shape=shape)
        array = operand.array
        if not (array.flags.writeable if isinstance(array, np.ndarray) else array.writeable):
            raise ArgumentValueError(f"{self.op}: `{name}` is read-only")
        return operand

    def new(self, shape: Shape, dtype: DType, name: str = "a temporary array") -> Operand:
        """Return a new array like the first operand: a result, or one between kernels."""
        like = self.operands[0]
        if math.prod(shape) * dtype.itemsize > MOST_BYTES:
            raise ArgumentValueError(f"{self.op}: `{name}` would have the shape {shape}, too large")
        value = new_array(like.value, shape, dtype, self.op)
        if (recording := recorder()) is not None:
            recording.add_new(like.value, value, shape, dtype)
        return Operand(self.op, name, value, shape, row_major(shape), dtype, like.device)

    @property
    def backend(self) -> str:
        """The name of the backend that runs the kernels of this call."""
        return target_text(self._arrays).partition(":")[0]

    @property
    def _arrays(self) -> list[Any]:
        return [operand.array for operand in self.operands]

    def describes(self, *operands: Operand) -> bool:
        """Return True if kernels can copy blocks of these arrays by TMA.

        A plan of this call is for arrays with such addresses, which new arrays have.
        """
        if not (all(operand.is_describable for operand in operands) and self._has_tma()):
            return False
        if (recording := recorder()) is not None:
            for operand in operands:
                if operand.array is not None:
                    recording.add_aligned(operand.value)
        return True

    def has_clusters(self) -> bool:
        """Return True if programs of a cluster can exchange numbers on the device of the arrays."""
        return self._has_tma() or str(target_of(self._arrays)) in ("interp", "interp:steps")

    def _has_tma(self) -> bool:
        target = target_of(self._arrays)
        backend = backends.get(target.backend)
        if not (target.arch and isinstance(backend, ThreadLowering)):  # the interpreter of tiles
            return False
        return backend.lowering_target(target).has_tma
