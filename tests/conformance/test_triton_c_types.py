"""Each scalar type of Triton-C on the backend under test: parameters, constants, tiles, conversions."""

from __future__ import annotations

import pytest

from tests.conformance import scalar_types
from tests.conformance.running import Device, assert_close
from tests.conformance.test_triton_c import launch
from tile import triton_c
from tile.ir.types import ALL, Scalar


@pytest.mark.parametrize("ty", ALL, ids=str)
def test_a_scalar_type(ty: Scalar, device: Device) -> None:
    kernel = triton_c.compile(scalar_types.text(ty)).f
    results = list(scalar_types.outputs(ty))
    arguments = scalar_types.parameter(ty), scalar_types.values(ty)
    launch(kernel, device, (1,), *arguments, *results)
    for result, (name, right, defined) in zip(results, scalar_types.expected(ty), strict=True):
        assert_close(result[defined], right[defined], 0, f"{name} of {ty}")
