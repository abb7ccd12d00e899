"""Unary operations and casts of 8- and 16-bit types, on every value of the type."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.conformance.kernels import Step, around_all
from tests.conformance.running import Array, Device, assert_close
from tests.conformance.values import placeholder
from tile.ir import semantics
from tile.ir.declare import OPS
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.op_definition import OpDef
from tile.ir.ops.arith import Rounding
from tile.ir.types import ALL, Scalar, Tile

NARROW = [ty for ty in ALL if ty.bits in (8, 16)]
UNARY = [
    defn for defn in OPS if defn.elementwise and len(defn.operands) == 1 and not defn.attributes
]
CAST = OPS["cast"]
BLOCK = 256


def every(ty: Scalar) -> Array:
    """Return all values of a type, by their bits."""
    return np.arange(1 << ty.bits).astype(f"u{ty.itemsize}").view(numpy_dtype(ty))


def casts(ty: Scalar) -> Iterator[Step]:
    """Convert to every type; floats to narrower ones also toward zero."""
    for to in ALL:
        yield Step(CAST, (Tile((BLOCK,), ty),), {"to": to})
        if ty.is_floating() and to.is_standard_floating() and to.bits < ty.bits:
            yield Step(CAST, (Tile((BLOCK,), ty),), {"to": to, "rounding": Rounding.RTZ})


def check(device: Device, x: Array, steps: list[Step]) -> None:
    """Apply operations to all elements in one kernel, and compare with the reference semantics."""
    outputs = [placeholder(step.results[0].element, len(x)) for step in steps]
    arguments = [array for output in outputs for array in (x, output)]
    with semantics.quiet():
        device.run(
            around_all(steps, masked=False), (len(x) // BLOCK, 1, 1), [*arguments, np.int32(0)]
        )
        for step, output in zip(steps, outputs, strict=True):
            defn = step.defn
            assert defn.semantics is not None
            wanted = defn.semantics(x, **defn.complete(step.attributes))
            assert_close(output, wanted, defn.ulp, f"{defn.name} {step.attributes}")


@pytest.mark.parametrize("ty", NARROW, ids=str)
def test_casts_of_every_value(device: Device, ty: Scalar) -> None:
    check(device, every(ty), list(casts(ty)))


def defined(ty: Scalar) -> list[OpDef]:
    """Return the unary operations on a type."""
    return [defn for defn in UNARY if ty in defn.accepts]


@pytest.mark.parametrize("ty", [ty for ty in NARROW if defined(ty)], ids=str)
def test_unary_operations_on_every_value(device: Device, ty: Scalar) -> None:
    check(device, every(ty), [Step(defn, (Tile((BLOCK,), ty),), {}) for defn in defined(ty)])
