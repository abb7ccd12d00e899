"""Arrays to write share no memory with the others of a call.

Calls that follow a plan compare address ranges alone (separation.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.core.operand import Operand
from tile.ops.core.recorder import recorder
from tile.runtime.arguments.device_arrays import DeviceArray
from tile.runtime.arguments.overlap import address_range, may_overlap, overlapping

MAX_WORK: Any = 10_000  # of `np.shares_memory`, whose worst case is exponential


def require_apart(operands: Sequence[Operand], in_place: Mapping[int, Sequence[str]]) -> None:
    """Raise `ArgumentValueError` if an array to write shares memory with another operand.

    in_place: by the numbers of operands to write, the names of those that they may be.
    """
    numbers: dict[str, int] = {}
    for number, operand in enumerate(operands):
        numbers.setdefault(operand.name, number)
    same = {
        output: {
            numbers[name]
            for name in names
            if name in numbers and operands[numbers[name]].strides == operands[output].strides
        }
        for output, names in in_place.items()
    }
    for one, other in sorted(_overlaps(operands)):
        output, read = (other, one) if other in same else (one, other)
        if output not in same:
            continue
        a, b = operands[output], operands[read]
        if not (read in same[output] and a.address == b.address) and _overlap(b.array, a.array):
            raise ArgumentValueError(
                f"{a.op}: `{a.name}` shares memory with `{b.name}`, which programs may still read"
            )
    if (recording := recorder()) is not None:
        for output, others in same.items():
            recording.add_output(operands[output].value, [operands[at].value for at in others])


def _overlaps(operands: Sequence[Operand]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of each two operands whose address ranges overlap, in their order."""
    starts, ends = zip(*(address_range(one.array) or (0, 0) for one in operands), strict=True)
    return ((min(pair), max(pair)) for pair in overlapping(starts, ends))


def _overlap(a: Any, b: Any) -> bool:
    """Return True if two arrays share memory, as far as that is known.

    Of OpenCL buffers it is not, nor of interleaved arrays in the memory of a device.
    """
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        try:
            return np.shares_memory(a, b, max_work=MAX_WORK)
        except np.exceptions.TooHardError:
            return True
    arrays = [array for array in (a, b) if isinstance(array, DeviceArray)]
    dense = all(x.span[1] - x.span[0] == x.size * x.dtype.itemsize for x in arrays)
    opencl = any(array.device.startswith("opencl") for array in arrays)
    return dense and not opencl and may_overlap(a, b)
