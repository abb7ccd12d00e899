"""The array arguments of an op, checked one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ops.core.dtypes import FLOATS
from tile.ops.core.new_arrays import DType, Shape
from tile.ops.core.operand import HOST, Operand
from tile.ops.core.options import Options
from tile.ops.core.recorder import recorder
from tile.runtime.arguments.adapt import adapt
from tile.runtime.arguments.device_arrays import DeviceArray


class Inputs(Options):
    """The operands of one call of an op; all are in the memory of one device."""

    def __init__(self, op: str) -> None:
        super().__init__(op)
        self.operands: list[Operand] = []

    def array(
        self,
        name: str,
        value: Any,
        *,
        dtypes: Sequence[DType] = FLOATS,
        rank: int | None = None,
        shape: Shape | None = None,
    ) -> Operand:
        """Return an array argument.

        dtypes: those that the op takes. rank: the number of axes; None is at least one. shape: the
        shape that it must have. Raises `ArgumentError` for anything else.
        """
        array = adapt(value, f"`{name}` of {self.op}")
        if not isinstance(array, np.ndarray | DeviceArray):
            raise self.not_a(name, value, "array")
        dtype, extents = array.dtype, tuple(array.shape)
        if dtype not in dtypes:
            kinds = _listed([kind.name for kind in dtypes], "or")
            raise ArgumentTypeError(f"{self.op}: `{name}` has dtype {dtype}; it takes {kinds}")
        if len(extents) != rank if rank is not None else not extents:
            axes = "1 axis or more" if rank is None else f"{rank} axes"
            raise self._shape_error(name, extents, f"have {axes}")
        if shape is not None and extents != shape:
            raise self._shape_error(name, extents, f"be {shape}")
        device = array.device if isinstance(array, DeviceArray) else HOST
        strides = tuple(step // dtype.itemsize for step in array.strides)
        operand = Operand(self.op, name, value, extents, strides, dtype, device, array)
        self._require_same_device(operand)
        self.operands.append(operand)
        if (recording := recorder()) is not None:
            recording.add_operand(value, operand.span)
        return operand

    def _require_same_device(self, operand: Operand) -> None:
        for other in self.operands[:1]:
            if not _same_device(other.device, operand.device):
                raise ArgumentValueError(
                    f"{self.op}: `{operand.name}` is in {operand.device}, and `{other.name}` in "
                    f"{other.device}; the arrays of a call are on one device"
                )

    def _shape_error(self, name: str, shape: Shape, expected: str) -> ArgumentValueError:
        return ArgumentValueError(f"{self.op}: `{name}` has shape {shape}; it must {expected}")

    def like(self, first: Operand, **arrays: Any) -> list[Operand]:
        """Return contiguous arrays, by name, of the shape and type of the first one."""
        options: Any = {"dtypes": (first.dtype,), "rank": len(first.shape), "shape": first.shape}
        return [self.array(name, x, **options).contiguous() for name, x in arrays.items()]

    def vectors(self, count: int, dtypes: Sequence[DType] = FLOATS, **arrays: Any) -> list[Operand]:
        """Return contiguous arrays, by name, of one axis of `count` elements."""
        options: Any = {"dtypes": dtypes, "rank": 1, "shape": (count,)}
        return [self.array(name, x, **options).contiguous() for name, x in arrays.items()]

    def matching(
        self, dtypes: Sequence[DType] = FLOATS, **arrays: tuple[Any, str]
    ) -> list[Operand]:
        """Return arrays of one type, whose axes of one name have one extent.

        arrays: each with its axes, as in `a=(a, "M x K"), b=(b, "K x N")`. dtypes: of the first.
        """
        operands: list[Operand] = []
        extents: dict[str, int] = {}
        for name, (value, axes) in arrays.items():
            kinds = (operands[0].dtype,) if operands else dtypes
            operands.append(self.array(name, value, dtypes=kinds, rank=len(axes.split(" x "))))
        texts = [axes for _, axes in arrays.values()]
        if not all(
            extents.setdefault(axis, extent) == extent
            for operand, axes in zip(operands, texts, strict=True)
            for axis, extent in zip(axes.split(" x "), operand.shape, strict=True)
        ):
            shapes = [f"`{operand.name}` {operand.shape}" for operand in operands]
            raise ArgumentValueError(
                f"{self.op}: {_listed(shapes).replace('` ', '` has shape ', 1)}; they must be "
                f"{_listed(texts)}"
            )
        return operands


def _same_device(a: str, b: str) -> bool:
    """Return True for equal devices; libraries that do not number theirs say only the kind."""
    kinds = a.partition(":")[0], b.partition(":")[0]
    return a == b or (kinds[0] == kinds[1] and (a in kinds or b in kinds))


def _listed(texts: Sequence[str], conjunction: str = "and") -> str:
    *most, last = texts
    return f"{', '.join(most)} {conjunction} {last}" if most else last
